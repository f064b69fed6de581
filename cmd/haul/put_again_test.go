package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/sftp"
)

// With put -p, existing directories that clients may not change are not a failure: the summary
// counts them.
func TestPutAgainWhereFilesAreOnlyAdded(t *testing.T) {
	l := startLabWith(t, labOptions{account: func(a *sftp.Account) { a.CreateOnly = true }}, nil)
	here := t.TempDir()
	writeFile(t, filepath.Join(here, "tree/sub/file"), "file")
	then := time.Unix(1e9, 0)
	for _, name := range []string{"tree/sub/file", "tree/sub", "tree"} {
		if err := os.Chtimes(filepath.Join(here, name), then, then); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(here)
	if code, _, msg := l.haul("put", "-rp", "tree", "lab:"); code != 0 || strings.Contains(msg, "kept") {
		t.Fatalf("the first time: exit code %d, says %s", code, msg)
	}
	for _, how := range []string{"--unchanged", "--continue"} {
		writeFile(t, filepath.Join(here, "tree/new"+how+"/file"), "new")
		code, _, msg := l.haul("put", "-rp", how, "tree", "lab:")
		if code != 0 || !strings.Contains(msg, " kept their permissions and times") {
			t.Errorf("again with %s: exit code %d, says %s", how, code, msg)
		}
	}
	wantTree(t, l.dir, map[string]string{"tree/sub/file": "file", "tree/new--unchanged/file": "new", "tree/new--continue/file": "new"})
}
