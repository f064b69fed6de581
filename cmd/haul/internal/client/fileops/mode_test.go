package fileops

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

var modeCases = []string{
	"0", "644", "0755", "4755", "02755", "00755", "7777", "u+x", "go-rwx", "a=r", "=r", "+x", "-w", "+w", "u=rwX,go=rX", "a+X", "u+s", "g+s", "+t", "o+t", "g=u", "o=g", "u+g",
	"u=", "ug+rw-x", "u=rw,g=r,o=", "=755", "+4000", "a=", "a=rwxst", "u-s", "g=", "g=s", "o=u-w", "+", "u+rw+x-r",
}

// Modes change permissions as GNU chmod(1) does. The test needs GNU coreutils.
func TestModeAsCoreutils(t *testing.T) {
	if text, err := exec.Command("chmod", "--version").Output(); err != nil || !strings.Contains(string(text), "coreutils") {
		t.Skip("no chmod of GNU coreutils")
	}
	dir := t.TempDir()
	const olds = "644 755 0 4711 2750 7777 111"
	var script strings.Builder
	fmt.Fprintf(&script, "umask 027\n")
	type try struct {
		mode, old string
		dir       bool
	}
	var tries []try
	for _, mode := range modeCases {
		for old := range strings.FieldsSeq(olds) {
			for _, isDir := range []bool{false, true} {
				name := fmt.Sprint(len(tries))
				tries = append(tries, try{mode, old, isDir})
				file := filepath.Join(dir, name)
				var err error
				if isDir {
					err = os.Mkdir(file, 0o700)
				} else {
					err = os.WriteFile(file, nil, 0o600)
				}
				if err == nil {
					err = os.Chmod(file, fileMode(parseOctal(t, old)))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for _, mode := range modeCases { // one process for all files of a mode
		var names []string
		for i, c := range tries {
			if c.mode == mode {
				names = append(names, fmt.Sprint(i))
			}
		}
		fmt.Fprintf(&script, "chmod -- '%s' %s\n", mode, strings.Join(names, " "))
	}
	cmd := exec.Command("sh", "-c", script.String())
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil && !strings.Contains(string(out), "new permissions are") {
		t.Fatalf("%v: %s", err, out)
	}
	for i, c := range tries {
		m, err := ParseMode(c.mode, 0o027)
		if err != nil {
			t.Errorf("%s: %v", c.mode, err)
			continue
		}
		fi, err := os.Stat(filepath.Join(dir, fmt.Sprint(i)))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := m.apply(parseOctal(t, c.old), c.dir), console.UnixBits(fi.Mode()); got != want {
			t.Errorf("%s of %s, a directory %v: %04o, and chmod makes %04o", c.mode, c.old, c.dir, got, want)
		}
	}
}

func parseOctal(t *testing.T, text string) uint32 {
	t.Helper()
	bits, _, rest := cutOctal(text)
	if rest != "" {
		t.Fatal(text)
	}
	return bits
}

// Malformed modes are refused.
func TestBadModes(t *testing.T) {
	for _, mode := range []string{"", "8", "64x", "10000", "77777777777777", "u", "x", "u+q", "u+x,", ",u+x", "u+x,,g+x", "u=755", "+9", "=755,u+x ", "u +x", "ug", "r+w"} {
		if _, err := ParseMode(mode, 0o022); !errors.Is(err, failure.Usage) {
			t.Errorf("mode %q: %v", mode, err)
		}
	}
}

// The umask limits bits, and directories keep some of theirs. This test does not need chmod(1).
func TestModes(t *testing.T) {
	for _, c := range []struct {
		mode, old string
		dir       bool
		want      uint32
	}{
		{"+x", "644", false, 0o754}, {"a+x", "644", false, 0o755}, {"+w", "444", false, 0o664}, {"755", "2700", true, 0o2755}, {"755", "2700", false, 0o755},
		{"00755", "2700", true, 0o755}, {"a+X", "644", false, 0o644}, {"a+X", "644", true, 0o755}, {"g=u", "640", false, 0o660}, {"u=rwX,go=rX", "700", false, 0o755},
	} {
		m, err := ParseMode(c.mode, 0o003)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.apply(parseOctal(t, c.old), c.dir); got != c.want {
			t.Errorf("%s of %s: %04o, want %04o", c.mode, c.old, got, c.want)
		}
	}
}
