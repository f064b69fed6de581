package localdir_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
)

// FuzzTreeNames runs scripts of operations in a tree full of links, on known names and on one from
// the fuzzer. Nothing outside must be read, listed or changed. A script consists of pairs of bytes,
// which encode an operation and two names.
func FuzzTreeNames(f *testing.F) {
	for i, name := range slices.Concat(outsideNames, []string{
		"f", "d/f", "to-f", "to-e/up-f", "d/new", ".", "", "/", "..", "../secret", "/etc/passwd", "d/../../secret",
		"..\\secret", "C:\\secret", "C:f", "to-e/../f", "..\xc0\xaf", "out\x00/secret", "NUL", "f:stream",
		".haul-ABCDEFGHIJKLMNOPQRSTUVWXYZ.part", "../inner2", "/",
	}) {
		script := []byte{byte(i), 7, byte(3 * i), 255}
		for op := range byte(treeOps) {
			script = append(script, op, 255-byte(i)%32)
		}
		f.Add(script, name)
	}
	f.Fuzz(func(t *testing.T, script []byte, name string) {
		const maxSteps = 32
		outer := memoryDir(t)
		inner := fillLinked(t, outer)
		abs := filepath.Join(outer, "secret")
		outside := outsideListing(t, outer)
		d := dirAt(t, inner)
		names := append(slices.Clone(outsideNames), "f", "d", "d/f", "to-f", "to-e", "to-new", "d/e/f", "new", "new/f",
			"d/new", ".", "../outdir", "../secret", abs, "d/../..", name, name+"/secret", "d/"+name)
		for step := 0; step+1 < len(script) && step < 2*maxSteps; step += 2 {
			b := int(script[step+1])
			treeOp(t, d, int(script[step])%treeOps, names[b%len(names)], names[(b/3+step)%len(names)])
		}
		if now := outsideListing(t, outer); !slices.Equal(now, outside) {
			t.Errorf("what is outside changed from %q to %q", outside, now)
		}
		wantFile(t, outer, "secret", secret)
		wantFile(t, outer, "outdir/secret", secret)
	})
}

// memoryDir returns a new directory in memory, if the system has one. On a disk, each upload would
// wait for the disk, and it would take seconds to remove what the fuzzer leaves behind.
func memoryDir(t testing.TB) string {
	dir, err := os.MkdirTemp("/dev/shm", "haul") //nolint:usetesting // not where all others are
	if err != nil {
		return t.TempDir()
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

const treeOps = 16

// treeOp makes one call, whether it succeeds or not.
func treeOp(t *testing.T, d *localdir.Dir, op int, name, other string) {
	ctx := t.Context()
	mode, size, mtime := fs.FileMode(0o750), int64(6), time.Unix(1_000_000_000, 0)
	attr := store.Attr{Mode: &mode, ModTime: mtime}
	switch op {
	case 0, 1:
		if f, err := d.Open(ctx, name); err == nil {
			wantNotSecret(t, name, f)
		}
	case 2, 3:
		a := store.Access{Read: true, Write: op == 2, Append: op == 3, Create: len(other)%2 == 0}
		if h, err := d.OpenFile(ctx, name, a); err == nil {
			_, _ = h.WriteAt([]byte("inside"), 0)
			_ = h.SetAttr(attr)
			wantNotSecret(t, name, h)
		}
	case 4: // FuzzNames tests Commit, which waits for the disk
		if u, err := d.Create(ctx, name, store.Create{Exclusive: len(other)%2 == 0}); err == nil {
			_, _ = u.WriteAt([]byte("inside"), 0)
			_ = u.Close()
		}
	case 5:
		_ = d.Mkdir(ctx, name, 0)
	case 6:
		_ = d.Remove(ctx, name)
	case 7:
		_ = d.RemoveDir(ctx, name)
	case 8:
		_ = d.Rename(ctx, name, other, false)
	case 9:
		_ = d.Rename(ctx, name, other, true)
	case 10:
		_ = d.Link(ctx, name, other)
	case 11:
		_ = d.Symlink(ctx, name, other)
	case 12:
		_ = d.SetAttr(ctx, name, attr, true)
	case 13:
		_ = d.SetAttr(ctx, name, attr, false)
		_ = d.SetAttr(ctx, name, store.Attr{Size: &size}, true)
	case 14:
		for _, stat := range []func() (fs.FileInfo, error){
			func() (fs.FileInfo, error) { return d.Stat(ctx, name) },
			func() (fs.FileInfo, error) { return d.Lstat(ctx, name) },
		} {
			if fi, err := stat(); err == nil {
				wantInside(t, name, fi)
			}
		}
	case 15:
		if e, err := d.OpenDir(ctx, name); err == nil {
			into := make([]fs.FileInfo, 100)
			n, _ := e.Next(into)
			for _, fi := range into[:n] {
				wantInside(t, fmt.Sprintf("an entry of %q", name), fi)
			}
			_ = e.Close()
		}
	}
}

// wantInside checks that fi does not describe one of the files outside, which are the only files of
// their size.
func wantInside(t *testing.T, name string, fi fs.FileInfo) {
	t.Helper()
	if fi.Mode().IsRegular() && fi.Size() == int64(len(secret)) {
		t.Errorf("%s is described as %s, which is outside", name, fs.FormatFileInfo(fi))
	}
}

// For users of a directory, temporary files of uploads under way do not exist. Other kinds of
// temporary files do.
func TestNamesOfUploadsAreHidden(t *testing.T) {
	dir, d := tempDir(t)
	for kind, hidden := range map[string]bool{"part": true, "keep": true, "mark": true, "upload": false} {
		name := ".haul-ABCDEFGHIJKLMNOPQRSTUVWX27." + kind
		writeFile(t, dir, name, "x")
		f, err := d.Open(t.Context(), name)
		if err == nil {
			_ = f.Close()
		}
		if (err != nil) != hidden || hidden && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %v, hidden: %v", name, err, hidden)
		}
	}
}
