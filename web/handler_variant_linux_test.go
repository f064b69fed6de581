package web_test

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web"
)

// changed returns the time of the last change that the system has recorded for a file.
func changed(t *testing.T, st store.Store, name string) time.Time {
	t.Helper()
	f, err := st.Open(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	id, ok := f.(store.Identifier).Identity()
	if !ok {
		t.Fatalf("the system does not identify %s", name)
	}
	return id.Changed()
}

// A variant is not used after its file was replaced, even if the new file has the time of the old
// one.
func TestVariantOfReplacedFile(t *testing.T) {
	st, path := dir(t, map[string]string{"f": "first"})
	h := &web.Handler{Store: st, Precompressed: true}
	// renew rewrites a file with its old modification time, until its time of change is later than
	// that of the file after: the clock for file times advances only in ticks.
	renew := func(name, content, after string) {
		t.Helper()
		for give := time.Now().Add(patience); ; {
			writeFile(t, filepath.Join(path, name), content)
			if changed(t, st, name).After(changed(t, st, after)) {
				return
			}
			if time.Now().After(give) {
				t.Fatal("the clock of the file system stands still")
			}
		}
	}
	renew("f.gz", "FIRST", "f")
	ask(t, h, "GET /f", "", "Accept-Encoding: gzip").want(t, 200, "FIRST")
	renew("f", "second", "f.gz")
	a := ask(t, h, "GET /f", "", "Accept-Encoding: gzip")
	a.want(t, 200, "second")
	a.wantField(t, "Content-Encoding", "")
	renew("f.gz", "SECOND", "f")
	ask(t, h, "GET /f", "", "Accept-Encoding: gzip").want(t, 200, "SECOND")
}
