//go:build unix

package tftp

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/tftp/transfer"
)

// changedSize is the size of the file that is changed while it is sent: more
// than what the server reads ahead.
const changedSize = 100*512 + 100

// must fails the test if err is one.
func (sc *scene) must(err error) {
	sc.Helper()
	if err != nil {
		sc.Fatal(err)
	}
}

// A file that is changed while it is sent arrives as it was, or the transfer
// ends by an ERROR: it never passes for whole when it is not.
func TestNastyFileChanges(t *testing.T) {
	watchHeap(t)
	const whole = taken
	tests := []struct {
		name   string
		change func(sc *scene, path string) error
		ends   byte // the ERROR's code, or whole
	}{
		{"shrinks to nothing", func(_ *scene, p string) error { return os.Truncate(p, 0) }, 0},
		{"shrinks inside a block", func(_ *scene, p string) error { return os.Truncate(p, 60*512+1) }, 0},
		{"shrinks to whole blocks", func(_ *scene, p string) error { return os.Truncate(p, 60*512) }, 0},
		{"loses a byte", func(_ *scene, p string) error { return os.Truncate(p, changedSize-1) }, 0},
		{"grows", func(_ *scene, p string) error { return os.Truncate(p, 2*changedSize) }, whole},
		{"grows by a byte", func(_ *scene, p string) error { return os.Truncate(p, changedSize+1) }, whole},
		{"is replaced", func(sc *scene, p string) error {
			writeFile(sc, sc.dir, "other", "something else")
			return os.Rename(filepath.Join(sc.dir, "other"), p)
		}, whole},
		{"is replaced by an upload", func(sc *scene, _ string) error {
			if fault := sc.put(sc.another(), "d/image", []byte("something else"), nil); fault != nil {
				sc.Errorf("upload: %q", fault)
			}
			return nil
		}, whole},
		{"is replaced by a pipe", func(sc *scene, p string) error {
			pipe(sc.T, filepath.Join(sc.dir, "pipe"))
			return os.Rename(filepath.Join(sc.dir, "pipe"), p)
		}, whole},
		{"is deleted", func(_ *scene, p string) error { return os.Remove(p) }, whole},
		{"is renamed", func(_ *scene, p string) error { return os.Rename(p, p+"2") }, whole},
		{"is closed to everybody", func(_ *scene, p string) error { return os.Chmod(p, 0) }, whole},
		{"directory is removed", func(sc *scene, p string) error { return os.RemoveAll(filepath.Dir(p)) }, whole},
		{"directory is renamed", func(sc *scene, p string) error { return os.Rename(filepath.Dir(p), filepath.Join(sc.dir, "e")) }, whole},
		{"directory becomes a link", func(sc *scene, p string) error {
			d := filepath.Dir(p)
			sc.must(os.Rename(d, filepath.Join(sc.dir, "e")))
			return os.Symlink("/", d)
		}, whole},
	}
	for _, test := range tests {
		for _, mode := range []string{"octet", "netascii"} {
			play(t, mode+" "+test.name, nil, func(sc *scene) {
				was := string(content("image", changedSize))
				writeFile(sc, sc.dir, "d/image", was)
				got, fault := sc.fetch(sc.asking(), "d/image", mode, func() {
					sc.must(test.change(sc, filepath.Join(sc.dir, "d", "image")))
					sc.by.step()
				})
				if mode == "netascii" {
					was = netascii(was)
				}
				switch {
				case test.ends == whole && (fault != nil || string(got) != was):
					sc.Errorf("%d bytes of %d, %q", len(got), len(was), fault)
				case test.ends != whole && !bytes.HasPrefix(fault, says(transfer.ErrorCode(test.ends))):
					sc.Errorf("ended by %q after %d bytes, want ERROR %d", fault, len(got), test.ends)
				case !strings.HasPrefix(was, string(got)):
					sc.Error("what came before the ERROR is not the file")
				}
			})
		}
	}
}

// The place that an upload is meant for changes while it is under way. An
// upload is acknowledged exactly if its file is there.
func TestNastyPlaceChanges(t *testing.T) {
	watchHeap(t)
	tests := []struct {
		name   string
		kind   Uploads
		change func(sc *scene, path string) error
		ends   byte   // the ERROR's code, or taken
		lies   string // where the file is then; the rest of the tree is as change left it
	}{
		{"directory is removed", OverwriteUploads, func(_ *scene, p string) error { return os.RemoveAll(filepath.Dir(p)) }, 1, ""},
		{"directory is renamed", OverwriteUploads, func(sc *scene, p string) error {
			return os.Rename(filepath.Dir(p), filepath.Join(sc.dir, "e"))
		}, taken, "e/new"}, // it goes where it began
		{"directory becomes a file", OverwriteUploads, func(sc *scene, p string) error {
			sc.must(os.RemoveAll(filepath.Dir(p)))
			return os.WriteFile(filepath.Dir(p), []byte("file"), 0o600)
		}, 1, ""},
		{"directory becomes a link out", OverwriteUploads, func(sc *scene, p string) error {
			sc.must(os.Rename(filepath.Dir(p), filepath.Join(sc.dir, "e")))
			return os.Symlink(sc.outside(), filepath.Dir(p))
		}, taken, "e/new"},
		{"temporary file is removed", OverwriteUploads, func(sc *scene, p string) error {
			all, err := filepath.Glob(filepath.Join(filepath.Dir(p), ".haul-*"))
			sc.must(err)
			if len(all) != 1 {
				sc.Fatalf("temporary files %q", all)
			}
			return os.Remove(all[0])
		}, 1, ""},
		{"file appears", OverwriteUploads, func(_ *scene, p string) error { return os.WriteFile(p, []byte("old"), 0o600) }, taken, "d/new"},
		{"file appears, and uploads replace none", CreateUploads, func(_ *scene, p string) error { return os.WriteFile(p, []byte("old"), 0o600) }, 6, ""},
		{"directory appears", OverwriteUploads, func(_ *scene, p string) error { return os.Mkdir(p, 0o700) }, 2, ""},
		{"pipe appears", OverwriteUploads, func(sc *scene, p string) error { pipe(sc.T, p); return nil }, 2, ""},
		{"link out appears", OverwriteUploads, func(sc *scene, p string) error {
			return os.Symlink(filepath.Join(sc.outside(), "secret"), p)
		}, 2, ""},
	}
	for _, test := range tests {
		play(t, test.name, func(s *Server) { s.Upload = test.kind }, func(sc *scene) {
			want := content("new", 3000)
			sc.must(os.Mkdir(filepath.Join(sc.dir, "d"), 0o755))
			fault := sc.put(sc.asking(), "d/new", want, func() {
				sc.must(test.change(sc, filepath.Join(sc.dir, "d", "new")))
				sc.by.step()
			})
			switch {
			case test.ends == taken && fault != nil:
				sc.Errorf("ended by %q", fault)
			case test.ends != taken && (fault == nil || fault[3] != test.ends):
				sc.Errorf("ended by %q, want ERROR %d", fault, test.ends)
			case test.lies != "":
				wantFile(sc, sc.store, test.lies, want)
			}
		})
	}
}

// outside returns a directory outside the root in which nothing may change.
func (sc *scene) outside() string {
	dir := sc.TempDir()
	writeFile(sc, dir, "secret", "secret")
	sc.Cleanup(func() {
		if b, err := os.ReadFile(filepath.Join(dir, "secret")); err != nil || string(b) != "secret" {
			sc.Errorf("outside the root: %q, %v", b, err)
		}
		if e := entries(sc.T, dir); len(e) != 1 {
			sc.Errorf("outside the root are %q", e)
		}
	})
	return dir
}

// Two peers want one name at the same time.
func TestNastyRaces(t *testing.T) {
	watchHeap(t)
	old, one, two := content("old", 2000), content("one", 3000), content("two", 4000)

	play(t, "a write, and a read of the same file", nil, func(sc *scene) {
		writeFile(sc, sc.dir, "image", string(old))
		fault := sc.put(sc.asking(), "image", one, func() {
			if got, fault := sc.fetch(sc.another(), "image", "octet", sc.stepBy); fault != nil || !bytes.Equal(got, old) {
				sc.Errorf("meanwhile: %d bytes, %q", len(got), fault)
			}
		})
		got, refused := sc.fetch(sc.another(), "image", "octet", nil)
		if fault != nil || refused != nil || !bytes.Equal(got, one) {
			sc.Errorf("afterwards: %q, %q, %d bytes", fault, refused, len(got))
		}
	})
	play(t, "a read, and a write of the same file", nil, func(sc *scene) {
		writeFile(sc, sc.dir, "image", string(old))
		got, fault := sc.fetch(sc.asking(), "image", "octet", func() {
			if fault := sc.put(sc.another(), "image", one, sc.stepBy); fault != nil {
				sc.Errorf("meanwhile: %q", fault)
			}
		})
		if fault != nil || !bytes.Equal(got, old) {
			sc.Errorf("%d bytes, %q", len(got), fault)
		}
		wantFile(sc, sc.store, "image", one)
	})
	play(t, "two writes that replace", nil, func(sc *scene) {
		fault := sc.put(sc.asking(), "image", one, func() {
			if fault := sc.put(sc.another(), "image", two, sc.stepBy); fault != nil {
				sc.Errorf("who began last, and ended first: %q", fault)
			}
			wantFile(sc, sc.store, "image", two)
		})
		if fault != nil {
			sc.Errorf("who ended last: %q", fault)
		}
		wantFile(sc, sc.store, "image", one)
	})
	play(t, "two writes that do not", func(s *Server) { s.Upload = CreateUploads }, func(sc *scene) {
		fault := sc.put(sc.asking(), "image", one, func() {
			if fault := sc.put(sc.another(), "image", two, sc.stepBy); fault != nil {
				sc.Errorf("who ended first: %q", fault)
			}
		})
		if !bytes.HasPrefix(fault, says(6)) {
			sc.Errorf("who ended last: %q, want ERROR 6", fault)
		}
		wantFile(sc, sc.store, "image", two)
	})
}

func (sc *scene) stepBy() { sc.by.step() }
