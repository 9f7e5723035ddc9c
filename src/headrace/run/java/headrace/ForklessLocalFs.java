package headrace;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.local.LocalConfigKeys;

/** The same files by Hadoop's newer way of asking for them, which Spark takes for checkpoints. */
public final class ForklessLocalFs extends ChecksumFs {

  /** Hadoop makes it by reflection, with the address of the files, which is always the same. */
  public ForklessLocalFs(URI address, Configuration configuration) throws IOException, URISyntaxException {
    super(new Raw(configuration));
  }

  private static final class Raw extends DelegateToFileSystem {

    Raw(Configuration configuration) throws IOException, URISyntaxException {
      super(URI.create("file:///"), new ForklessLocalFileSystem.Raw(), configuration, "file", false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1;
    }

    @Override
    public FsServerDefaults getServerDefaults(Path path) throws IOException {
      return LocalConfigKeys.getServerDefaults();
    }

    @Override
    @Deprecated
    public FsServerDefaults getServerDefaults() throws IOException {
      return LocalConfigKeys.getServerDefaults();
    }

    @Override
    public boolean isValidName(String path) {
      return true; // as Hadoop's own local one has it
    }
  }
}
