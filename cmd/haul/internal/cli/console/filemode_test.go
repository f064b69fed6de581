package console

import (
	"io/fs"
	"testing"
)

func TestModeString(t *testing.T) {
	for m, want := range map[fs.FileMode]string{
		0o644: "-rw-r--r--", fs.ModeDir | 0o755: "drwxr-xr-x", fs.ModeSymlink | 0o777: "lrwxrwxrwx", fs.ModeNamedPipe: "p---------",
		fs.ModeSetuid | 0o755: "-rwsr-xr-x", fs.ModeSetgid | 0o644: "-rw-r-Sr--", fs.ModeDir | fs.ModeSticky | 0o777: "drwxrwxrwt",
		fs.ModeDir | fs.ModeSticky: "d--------T", fs.ModeDevice: "b---------", fs.ModeDevice | fs.ModeCharDevice: "c---------",
		fs.ModeSocket | 0o600: "srw-------", fs.ModeIrregular: "?---------",
	} {
		if got := ModeString(m); got != want {
			t.Errorf("%v is %s, want %s", m, got, want)
		}
	}
}
