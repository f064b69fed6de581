//go:build unix

package interop

import (
	"flag"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

var agreeSeed = flag.Uint64("agree", 0, "seed of TestSFTPAgrees; 0 takes new ones")

// TestSFTPAgrees makes our server and OpenSSH's perform the same operations, many of them
// pointless, and expects the same answers and the same files.
func TestSFTPAgrees(t *testing.T) {
	seeds := []uint64{*agreeSeed}
	if *agreeSeed == 0 {
		for seeds = seeds[:0]; len(seeds) < 6; {
			seeds = append(seeds, rand.Uint64()|1)
		}
	}
	ours, theirs := realDir(t), realDir(t)
	us, them := haulInPlace.start(t, ours), sshdInternal.start(t, theirs)
	for _, seed := range seeds {
		again := fmt.Sprintf("go test ./interop -run TestSFTPAgrees -agree %d", seed)
		local := write(t, filepath.Join(t.TempDir(), "up"), content(40_000))
		name := fmt.Sprint("s", seed)
		// The operations work one level deeper, since links may lead up.
		ops := append([][]string{{"mkdir", name}, {"mkdir", name + "/in"}}, senseless(rand.New(rand.NewPCG(seed, 0)), name+"/in", local, 150)...)
		a, b := haulDriver.do(t, us, ops...), haulDriver.do(t, them, ops...)
		for i := range ops {
			if x, y := gist(t, ops[i], a[i]), gist(t, ops[i], b[i]); x != y {
				t.Errorf("%s\noperation %d, %q: haul says %s (%s), sshd %s (%s)", again, i, ops[i], x, a[i].Error, y, b[i].Error)
				break
			}
		}
		if x, y := inventory(t, filepath.Join(ours, name)), inventory(t, filepath.Join(theirs, name)); x != y {
			t.Errorf("%s\nhaul has\n%s\nsshd has\n%s", again, x, y)
		}
	}
}

// senseless makes random operations in a directory, on few names, so that most affect existing
// files. They do not use "..", because our server resolves paths as text, and for the same reason
// not REALPATH.
func senseless(r *rand.Rand, dir, local string, n int) (ops [][]string) {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	name := func() string {
		return dir + "/" + pick("a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "c/a", "none/a")
	}
	// OpenSSH moves links, and directories, to the names of links that lead nowhere; haul refuses
	// any name that exists. So there are either links or moves.
	odd := pick("symlink", "move")
	for range n {
		op := []string{pick(odd, "put", "put", "mkdir", "mkdir", "rmdir", "remove", "rename", "link", "copy", "chmod", "truncate",
			"utime", "stat", "lstat", "list", "readlink", "read", "write")}
		switch op[0] {
		case "put":
			op = append(op, local, name())
		case "move", "rename", "link", "copy":
			op = append(op, name(), name())
		case "symlink":
			op = append(op, pick("a", "b", "d", "d/e", "../a", "nowhere", "."), name())
		case "chmod":
			op = append(op, name(), pick("600", "755", "640", "711"))
		case "truncate":
			op = append(op, name(), pick("0", "100", "50000"))
		case "utime":
			op = append(op, name(), pick("0", "1000000000", "4000000000"))
		case "read":
			op = append(op, name(), pick("0", "39990", "100000"), "20")
		case "write":
			op = append(op, name(), pick("0", "20000", "60000"), pick("00", "ffff"))
		default:
			op = append(op, name())
		}
		ops = append(ops, op)
	}
	return ops
}

// gist returns what two servers have to agree on: the result, or the failure and its kind.
// OpenSSH's server uses one status for most failures.
func gist(t *testing.T, op []string, a answer) string {
	t.Helper()
	switch {
	case a.Error != "" && a.Kind == "not exist":
		return a.Kind
	case a.Error != "":
		return "failed"
	}
	switch op[0] {
	case "stat", "lstat":
		d := attributesOf(t, a)
		if d.Mode&syscall.S_IFMT != syscall.S_IFREG {
			d.Size = 0
		}
		d.Mtime = 0 // usually the current time
		if d.Mode&syscall.S_IFMT == syscall.S_IFLNK {
			d.Mode = syscall.S_IFLNK
		}
		return fmt.Sprintf("%+v", d)
	}
	return string(a.Value)
}

// inventory describes the content of a directory.
func inventory(t *testing.T, dir string) string {
	t.Helper()
	var out strings.Builder
	err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, name)
		fi, err := d.Info()
		if err != nil {
			return err
		}
		what := fi.Mode().String()
		switch fi.Mode().Type() {
		case 0:
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			h := uint32(2166136261)
			for _, c := range b {
				h = (h ^ uint32(c)) * 16777619
			}
			what += fmt.Sprintf(" %d bytes %08x", len(b), h)
			// A time that was set is exact to the second; a written file has the current time.
			if fi.ModTime().Before(time.Now().Add(-time.Hour)) || fi.ModTime().After(time.Now().Add(time.Hour)) {
				what += fmt.Sprint(" ", fi.ModTime().Unix())
			}
		case fs.ModeSymlink:
			target, err := os.Readlink(name)
			if err != nil {
				return err
			}
			what += " " + target
		}
		fmt.Fprintf(&out, "%s: %s\n", rel, what)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
