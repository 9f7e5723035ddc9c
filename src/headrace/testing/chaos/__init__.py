"""`headrace chaos`: a flow on local real parts, its processes killed and stopped while it runs, and what that did."""
