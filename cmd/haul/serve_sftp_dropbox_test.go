package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/sftp"
	"github.com/haul-project/haul/users"
)

// haul puts files into a drop box with any flags, and leaves nothing else there. Nothing is
// replaced, and nothing can be fetched.
func TestServeSFTPDropBox(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		l := startLabWith(t, labOptions{account: func(a *sftp.Account) {
			a.Access, a.Hidden = users.UploadOnly, hidden
		}}, map[string]string{"old": "old"})
		here := t.TempDir()
		then := time.Unix(1e9, 0)
		big := strings.Repeat("0123456789abcdef", 20<<20/16)
		for name, content := range map[string]string{"a": "a", "big": big, "tree/b": "b", "tree/sub/c": "c"} {
			writeFile(t, filepath.Join(here, name), content)
		}
		err := filepath.WalkDir(here, func(name string, _ fs.DirEntry, err error) error {
			if err == nil {
				err = os.Chtimes(name, then, then)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Chdir(here)
		for _, args := range []string{
			"put a lab:", "put -p a lab:dated", "put --in-place a lab:placed", "put --continue big lab:", "put --fsync big lab:durable",
			"put -r tree lab:", "put -r -p tree lab:dated-tree", "put -r -p --parallel 8 tree lab:tree",
			"mkdir lab:made", "mkdir -p lab:made/below", "put a lab:made/below/",
		} {
			code, _, msg := l.haul(strings.Fields(args)...)
			if code != 0 {
				t.Errorf("hidden %v: haul %s: exit code %d, %s", hidden, args, code, msg)
			}
		}
		for _, args := range []string{"put a lab:old", "put --continue big lab:old", "put --in-place a lab:old", "put -r tree lab:", "get lab:a out", "rm lab:old", "mv lab:old lab:new"} {
			if code, _, msg := l.haul(strings.Fields(args)...); code == 0 {
				t.Errorf("hidden %v: haul %s went through: %s", hidden, args, msg)
			}
		}
		if code, _, msg := l.haul("put", "--verify", "a", "lab:verified"); code == 0 || !strings.Contains(msg, "permission denied") {
			t.Errorf("hidden %v: --verify: exit code %d, %s", hidden, code, msg)
		}
		wantTree(t, l.dir, map[string]string{
			"old": "old", "a": "a", "dated": "a", "placed": "a", "big": big, "durable": big, "tree/b": "b", "tree/sub/c": "c",
			"tree/tree/b": "b", "tree/tree/sub/c": "c", "dated-tree/b": "b", "dated-tree/sub/c": "c", "made/below/a": "a",
		})
		for _, name := range []string{"dated", "dated-tree/b", "dated-tree/sub", "dated-tree"} {
			if fi, err := os.Stat(filepath.Join(l.dir, name)); err != nil || !fi.ModTime().Equal(then) {
				t.Errorf("hidden %v: %s is of %v, %v", hidden, name, fi, err)
			}
		}
	}
}
