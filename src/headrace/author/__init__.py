"""What authors derive their own classes from, besides keyed processors (`headrace.processor`)."""
