package headrace;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.util.EnumSet;
import java.util.Set;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local file system, asking Java where Hadoop without its native library starts a process: {@code chmod} for
 * every file and folder made, {@code readlink} for every one renamed. Checksums and everything else are Hadoop's own.
 */
public final class ForklessLocalFileSystem extends LocalFileSystem {

  public ForklessLocalFileSystem() {
    super(new Raw());
  }

  /** The files without their checksums. */
  static final class Raw extends RawLocalFileSystem {

    /** By the bits of a mode, lowest first. */
    private static final PosixFilePermission[] BITS = {
      PosixFilePermission.OTHERS_EXECUTE, PosixFilePermission.OTHERS_WRITE, PosixFilePermission.OTHERS_READ,
      PosixFilePermission.GROUP_EXECUTE, PosixFilePermission.GROUP_WRITE, PosixFilePermission.GROUP_READ,
      PosixFilePermission.OWNER_EXECUTE, PosixFilePermission.OWNER_WRITE, PosixFilePermission.OWNER_READ,
    };

    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      int mode = permission.toShort();
      if (mode >> BITS.length != 0) { // a sticky bit, which Java cannot set
        super.setPermission(path, permission);
        return;
      }
      Set<PosixFilePermission> allowed = EnumSet.noneOf(PosixFilePermission.class);
      for (int bit = 0; bit < BITS.length; bit++) {
        if ((mode & 1 << bit) != 0) {
          allowed.add(BITS[bit]);
        }
      }
      Files.setPosixFilePermissions(pathToFile(path).toPath(), allowed);
    }

    @Override
    protected boolean mkOneDirWithMode(Path path, File file, FsPermission permission) throws IOException {
      if (!file.mkdir()) {
        return false;
      }
      if (permission != null) {
        setPermission(path, permission.applyUMask(FsPermission.getUMask(getConf())));
      }
      return true;
    }

    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
      boolean link = Files.isSymbolicLink(pathToFile(path).toPath());
      return link ? super.getFileLinkStatus(path) : getFileStatus(path);
    }
  }
}
