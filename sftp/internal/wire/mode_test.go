package wire

import (
	"io/fs"
	"testing"
)

func TestMode(t *testing.T) {
	for _, test := range []struct {
		mode Mode
		file fs.FileMode
		text string
	}{
		{0o100644, 0o644, "-rw-r--r--"},
		{0o040755, fs.ModeDir | 0o755, "drwxr-xr-x"},
		{0o120777, fs.ModeSymlink | 0o777, "lrwxrwxrwx"},
		{0o060660, fs.ModeDevice | 0o660, "brw-rw----"},
		{0o020620, fs.ModeDevice | fs.ModeCharDevice | 0o620, "crw--w----"},
		{0o010600, fs.ModeNamedPipe | 0o600, "prw-------"},
		{0o140755, fs.ModeSocket | 0o755, "srwxr-xr-x"},
		{0o104755, fs.ModeSetuid | 0o755, "-rwsr-xr-x"},
		{0o104655, fs.ModeSetuid | 0o655, "-rwSr-xr-x"},
		{0o102755, fs.ModeSetgid | 0o755, "-rwxr-sr-x"},
		{0o102745, fs.ModeSetgid | 0o745, "-rwxr-Sr-x"},
		{0o041777, fs.ModeDir | fs.ModeSticky | 0o777, "drwxrwxrwt"},
		{0o041776, fs.ModeDir | fs.ModeSticky | 0o776, "drwxrwxrwT"},
		{0o107000, fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky, "---S--S--T"},
	} {
		if got := fs.FileMode(test.mode.FileMode()); got != test.file {
			t.Errorf("%o is %v, want %v", uint32(test.mode), got, test.file)
		}
		if got := ModeOf(uint32(test.file)); got != test.mode {
			t.Errorf("%v is %o, want %o", test.file, uint32(got), uint32(test.mode))
		}
		if got := test.mode.String(); got != test.text {
			t.Errorf("%o is %s, want %s", uint32(test.mode), got, test.text)
		}
		if test.mode.IsDir() != test.file.IsDir() {
			t.Errorf("%o: directory %v", uint32(test.mode), test.mode.IsDir())
		}
	}
}

// TestModesWithoutMatch tests modes of one type, Mode or fs.FileMode, that the other cannot
// represent.
func TestModesWithoutMatch(t *testing.T) {
	for mode, want := range map[Mode]fs.FileMode{
		0o644:                0o644, // only permissions, as in requests
		0o4755:               fs.ModeSetuid | 0o755,
		0o170644:             fs.ModeIrregular | 0o644,
		0xffff0000 | 0o40700: fs.ModeDir | 0o700,
	} {
		if got := fs.FileMode(mode.FileMode()); got != want {
			t.Errorf("%o is %v, want %v", uint32(mode), got, want)
		}
	}
	for file, want := range map[fs.FileMode]Mode{
		fs.ModeIrregular | 0o644:                                    0o644,
		fs.ModeAppend | fs.ModeExclusive | fs.ModeTemporary | 0o600: 0o100600,
	} {
		if got := ModeOf(uint32(file)); got != want {
			t.Errorf("%v is %o, want %o", file, uint32(got), uint32(want))
		}
	}
	if got := Mode(0o644).String(); got != "?rw-r--r--" {
		t.Error(got)
	}
}

// TestModeBothWays converts all modes of POSIX and back.
func TestModeBothWays(t *testing.T) {
	for _, kind := range []Mode{ModeSocket, ModeSymlink, ModeRegular, ModeBlock, ModeDir, ModeChar, ModeFIFO} {
		for bits := range Mode(0o10000) {
			if m := kind | bits; ModeOf(m.FileMode()) != m || m.Type() != kind {
				t.Fatalf("%o became %o", uint32(m), uint32(ModeOf(m.FileMode())))
			}
		}
	}
}

// TestFileModeBits compares the copies of fs.FileMode's bits with the originals.
func TestFileModeBits(t *testing.T) {
	for bit, want := range map[uint32]fs.FileMode{
		goDir: fs.ModeDir, goSymlink: fs.ModeSymlink, goDevice: fs.ModeDevice, goNamedPipe: fs.ModeNamedPipe,
		goSocket: fs.ModeSocket, goSetuid: fs.ModeSetuid, goSetgid: fs.ModeSetgid, goCharDevice: fs.ModeCharDevice,
		goSticky: fs.ModeSticky, goIrregular: fs.ModeIrregular, goType: fs.ModeType, uint32(ModePerm): fs.ModePerm,
	} {
		if fs.FileMode(bit) != want {
			t.Errorf("%#x is not %v", bit, want)
		}
	}
}
