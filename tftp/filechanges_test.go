//go:build unix

package tftp

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/tftp/internal/tftptest"
	"github.com/haul-project/haul/tftp/transfer"
)

// changedSize is the size of the file that is changed while it is sent: more
// than what the server reads ahead.
const changedSize = 100*512 + 100

// must fails the test if err is one.
func (tb *testbed) must(err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// A file that is changed while it is sent arrives as it was, or the transfer
// ends by an ERROR: it never passes for whole when it is not.
func TestFileChanges(t *testing.T) {
	watchHeap(t)
	const whole = taken
	tests := []struct {
		name   string
		change func(tb *testbed, path string) error
		ends   byte // the ERROR's code, or whole
	}{
		{"shrinks to nothing", func(_ *testbed, p string) error { return os.Truncate(p, 0) }, 0},
		{"shrinks inside a block", func(_ *testbed, p string) error { return os.Truncate(p, 60*512+1) }, 0},
		{"shrinks to whole blocks", func(_ *testbed, p string) error { return os.Truncate(p, 60*512) }, 0},
		{"loses a byte", func(_ *testbed, p string) error { return os.Truncate(p, changedSize-1) }, 0},
		{"grows", func(_ *testbed, p string) error { return os.Truncate(p, 2*changedSize) }, whole},
		{"grows by a byte", func(_ *testbed, p string) error { return os.Truncate(p, changedSize+1) }, whole},
		{"is replaced", func(tb *testbed, p string) error {
			writeFile(tb, tb.dir, "other", "something else")
			return os.Rename(filepath.Join(tb.dir, "other"), p)
		}, whole},
		{"is replaced by an upload", func(tb *testbed, _ string) error {
			if fault := tb.put(tb.another(), "d/image", []byte("something else"), nil); fault != nil {
				tb.Errorf("upload: %q", fault)
			}
			return nil
		}, whole},
		{"is replaced by a pipe", func(tb *testbed, p string) error {
			pipe(tb.T, filepath.Join(tb.dir, "pipe"))
			return os.Rename(filepath.Join(tb.dir, "pipe"), p)
		}, whole},
		{"is deleted", func(_ *testbed, p string) error { return os.Remove(p) }, whole},
		{"is renamed", func(_ *testbed, p string) error { return os.Rename(p, p+"2") }, whole},
		{"is closed to everybody", func(_ *testbed, p string) error { return os.Chmod(p, 0) }, whole},
		{"directory is removed", func(tb *testbed, p string) error { return os.RemoveAll(filepath.Dir(p)) }, whole},
		{"directory is renamed", func(tb *testbed, p string) error { return os.Rename(filepath.Dir(p), filepath.Join(tb.dir, "e")) }, whole},
		{"directory becomes a link", func(tb *testbed, p string) error {
			d := filepath.Dir(p)
			tb.must(os.Rename(d, filepath.Join(tb.dir, "e")))
			return os.Symlink("/", d)
		}, whole},
	}
	for _, test := range tests {
		for _, mode := range []string{"octet", "netascii"} {
			runCase(t, mode+" "+test.name, nil, func(tb *testbed) {
				was := string(tftptest.Content("image", changedSize))
				writeFile(tb, tb.dir, "d/image", was)
				got, fault := tb.fetch(tb.askAgain(), "d/image", mode, func() {
					tb.must(test.change(tb, filepath.Join(tb.dir, "d", "image")))
					tb.good.step()
				})
				if mode == "netascii" {
					was = netascii(was)
				}
				switch {
				case test.ends == whole && (fault != nil || string(got) != was):
					tb.Errorf("%d bytes of %d, %q", len(got), len(was), fault)
				case test.ends != whole && !bytes.HasPrefix(fault, says(transfer.ErrorCode(test.ends))):
					tb.Errorf("ended by %q after %d bytes, want ERROR %d", fault, len(got), test.ends)
				case !strings.HasPrefix(was, string(got)):
					tb.Error("what came before the ERROR is not the file")
				}
			})
		}
	}
}

// The place that an upload is meant for changes while it is under way. An
// upload is acknowledged exactly if its file is there.
func TestUploadPlaceChanges(t *testing.T) {
	watchHeap(t)
	tests := []struct {
		name   string
		kind   Uploads
		change func(tb *testbed, path string) error
		ends   byte   // the ERROR's code, or taken
		lies   string // where the file is then; the rest of the tree is as change left it
	}{
		{"directory is removed", OverwriteUploads, func(_ *testbed, p string) error { return os.RemoveAll(filepath.Dir(p)) }, 1, ""},
		{"directory is renamed", OverwriteUploads, func(tb *testbed, p string) error {
			return os.Rename(filepath.Dir(p), filepath.Join(tb.dir, "e"))
		}, taken, "e/new"}, // it goes where it began
		{"directory becomes a file", OverwriteUploads, func(tb *testbed, p string) error {
			tb.must(os.RemoveAll(filepath.Dir(p)))
			return os.WriteFile(filepath.Dir(p), []byte("file"), 0o600)
		}, 1, ""},
		{"directory becomes a link out", OverwriteUploads, func(tb *testbed, p string) error {
			tb.must(os.Rename(filepath.Dir(p), filepath.Join(tb.dir, "e")))
			return os.Symlink(tb.outside(), filepath.Dir(p))
		}, taken, "e/new"},
		{"temporary file is removed", OverwriteUploads, func(tb *testbed, p string) error {
			all, err := filepath.Glob(filepath.Join(filepath.Dir(p), ".haul-*"))
			tb.must(err)
			if len(all) != 1 {
				tb.Fatalf("temporary files %q", all)
			}
			return os.Remove(all[0])
		}, 1, ""},
		{"file appears", OverwriteUploads, func(_ *testbed, p string) error { return os.WriteFile(p, []byte("old"), 0o600) }, taken, "d/new"},
		{"file appears, and uploads replace none", CreateUploads, func(_ *testbed, p string) error { return os.WriteFile(p, []byte("old"), 0o600) }, 6, ""},
		{"directory appears", OverwriteUploads, func(_ *testbed, p string) error { return os.Mkdir(p, 0o700) }, 2, ""},
		{"pipe appears", OverwriteUploads, func(tb *testbed, p string) error { pipe(tb.T, p); return nil }, 2, ""},
		{"link out appears", OverwriteUploads, func(tb *testbed, p string) error {
			return os.Symlink(filepath.Join(tb.outside(), "secret"), p)
		}, 2, ""},
	}
	for _, test := range tests {
		runCase(t, test.name, func(s *Config) { s.Upload = test.kind }, func(tb *testbed) {
			want := tftptest.Content("new", 3000)
			tb.must(os.Mkdir(filepath.Join(tb.dir, "d"), 0o755))
			fault := tb.put(tb.askAgain(), "d/new", want, func() {
				tb.must(test.change(tb, filepath.Join(tb.dir, "d", "new")))
				tb.good.step()
			})
			switch {
			case test.ends == taken && fault != nil:
				tb.Errorf("ended by %q", fault)
			case test.ends != taken && (fault == nil || fault[3] != test.ends):
				tb.Errorf("ended by %q, want ERROR %d", fault, test.ends)
			case test.lies != "":
				tftptest.WantFile(tb, tb.store, test.lies, want)
			}
		})
	}
}

// outside returns a directory outside the root in which nothing may change.
func (tb *testbed) outside() string {
	dir := tb.TempDir()
	writeFile(tb, dir, "secret", "secret")
	tb.Cleanup(func() {
		if b, err := os.ReadFile(filepath.Join(dir, "secret")); err != nil || string(b) != "secret" {
			tb.Errorf("outside the root: %q, %v", b, err)
		}
		if e := entries(tb.T, dir); len(e) != 1 {
			tb.Errorf("outside the root are %q", e)
		}
	})
	return dir
}

// Two peers want one name at the same time.
func TestTwoPeersOneName(t *testing.T) {
	watchHeap(t)
	old, one, two := tftptest.Content("old", 2000), tftptest.Content("one", 3000), tftptest.Content("two", 4000)

	runCase(t, "a write, and a read of the same file", nil, func(tb *testbed) {
		writeFile(tb, tb.dir, "image", string(old))
		fault := tb.put(tb.askAgain(), "image", one, func() {
			if got, fault := tb.fetch(tb.another(), "image", "octet", tb.stepBy); fault != nil || !bytes.Equal(got, old) {
				tb.Errorf("meanwhile: %d bytes, %q", len(got), fault)
			}
		})
		got, refused := tb.fetch(tb.another(), "image", "octet", nil)
		if fault != nil || refused != nil || !bytes.Equal(got, one) {
			tb.Errorf("afterwards: %q, %q, %d bytes", fault, refused, len(got))
		}
	})
	runCase(t, "a read, and a write of the same file", nil, func(tb *testbed) {
		writeFile(tb, tb.dir, "image", string(old))
		got, fault := tb.fetch(tb.askAgain(), "image", "octet", func() {
			if fault := tb.put(tb.another(), "image", one, tb.stepBy); fault != nil {
				tb.Errorf("meanwhile: %q", fault)
			}
		})
		if fault != nil || !bytes.Equal(got, old) {
			tb.Errorf("%d bytes, %q", len(got), fault)
		}
		tftptest.WantFile(tb, tb.store, "image", one)
	})
	runCase(t, "two writes that replace", nil, func(tb *testbed) {
		fault := tb.put(tb.askAgain(), "image", one, func() {
			if fault := tb.put(tb.another(), "image", two, tb.stepBy); fault != nil {
				tb.Errorf("who began last, and ended first: %q", fault)
			}
			tftptest.WantFile(tb, tb.store, "image", two)
		})
		if fault != nil {
			tb.Errorf("who ended last: %q", fault)
		}
		tftptest.WantFile(tb, tb.store, "image", one)
	})
	runCase(t, "two writes that do not", func(s *Config) { s.Upload = CreateUploads }, func(tb *testbed) {
		fault := tb.put(tb.askAgain(), "image", one, func() {
			if fault := tb.put(tb.another(), "image", two, tb.stepBy); fault != nil {
				tb.Errorf("who ended first: %q", fault)
			}
		})
		if !bytes.HasPrefix(fault, says(6)) {
			tb.Errorf("who ended last: %q, want ERROR 6", fault)
		}
		tftptest.WantFile(tb, tb.store, "image", two)
	})
}

func (tb *testbed) stepBy() { tb.good.step() }
