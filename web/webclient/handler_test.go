package webclient

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/storetest"
	"github.com/haul-project/haul/store/treecopy"
	"github.com/haul-project/haul/web"
)

// With the client and the handler of package web, uploads resume after a lost connection and in
// another run, and a tree that is uploaded and downloaded again is unchanged.
func TestOfTheHandler(t *testing.T) {
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	h := &web.Handler{Store: localdir.New(root), Listing: true, Access: web.AccessFull}
	var cut atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n := cut.Load(); n > 0 && r.Method == "PUT" && r.ContentLength > 0 {
			cut.Store(0)
			r.Body = io.NopCloser(&cutBody{r.Body, n})
		}
		h.ServeHTTP(w, r)
	}))
	defer s.Close()
	client := func() *Client {
		c, err := New(s.URL, Config{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	c := client()
	content := randomContent(40 << 20)
	for _, n := range []int64{0, 5 << 20, 1, 39 << 20} {
		cut.Store(n)
		src := localFile(t, content)
		if _, err := putFrom(t, c, src, treecopy.Options{Continue: true, Verify: true}); err != nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if b, err := os.ReadFile(filepath.Join(dir, "f")); !bytes.Equal(b, content) {
			t.Fatalf("cut at %d: the file has %d bytes of %d, %v", n, len(b), len(content), err)
		}
		if err := c.Remove(t.Context(), "f"); err != nil {
			t.Fatal(err)
		}
	}
	// Another run resumes where the first one stopped.
	src := localFile(t, content)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	from, err := os.OpenRoot(src)
	if err != nil {
		t.Fatal(err)
	}
	defer from.Close()
	var moved atomic.Int64
	_, err = treecopy.Copy(ctx, treecopy.Job{
		Sources: []treecopy.Source{{Tree: localdir.New(from), Name: "f"}}, To: c.Tree(), Target: "f", Options: treecopy.Options{Continue: true},
		Hooks: treecopy.Hooks{Progress: func(_ *treecopy.Item, n int64) {
			if moved.Add(n) > 30<<20 {
				cancel()
			}
		}},
	})
	if err == nil {
		t.Fatal("an upload that was cancelled has succeeded")
	}
	var res treecopy.Result
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		// The server may not have noticed yet that the first client has closed its connection.
		if res, err = putFrom(t, client(), src, treecopy.Options{Continue: true}); err == nil || time.Now().After(deadline) {
			break
		}
	}
	if err != nil || res.Resumed == 0 {
		t.Fatalf("another run: %+v, %v", res, err)
	}

	if list, err := c.ReadDir(t.Context(), "."); err != nil || len(list) != 1 {
		t.Fatalf("%v, %v", list, err)
	}
	if err := os.MkdirAll(filepath.Join(dir, "d/e"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "d/e/x"), []byte("x"), 0o644); err != nil {
		t.Fatal(err)
	}
	if fi, err := c.Stat(t.Context(), "d"); err != nil || !fi.IsDir() {
		t.Fatalf("%v, %v", fi, err)
	}
	out, res, err := copyToDir(t, c, ".", treecopy.Options{Recursive: true, PreserveTimes: true, Continue: true, Verify: true})
	if err != nil || res.Copied != 2 {
		t.Fatalf("%+v, %v", res, err)
	}
	if b, err := os.ReadFile(filepath.Join(out, "f")); !bytes.Equal(b, content) {
		t.Errorf("%d bytes came of %d, %v", len(b), len(content), err)
	}
}

// A tree is uploaded to a missing directory, with and without parts, and all of it arrives except
// directories without files.
func TestTreeToTheHandler(t *testing.T) {
	for _, o := range []treecopy.Options{{}, {Continue: true, Verify: true}} {
		dir := t.TempDir()
		root, err := os.OpenRoot(dir)
		if err != nil {
			t.Fatal(err)
		}
		defer root.Close()
		s := httptest.NewServer(&web.Handler{Store: localdir.New(root), Access: web.AccessCreate})
		defer s.Close()
		c, err := New(s.URL, Config{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		from := store.Mem(0)
		files := map[string][]byte{"d/a": randomContent(10), "d/b/c/big": randomContent(3 << 20), "d/b/c/empty": nil, "d/b/e/x": randomContent(1)}
		for name, content := range files {
			storetest.Put(t, from, name, content)
		}
		if err := from.Mkdir(t.Context(), "d/none", 0); err != nil {
			t.Fatal(err)
		}
		o.Recursive = true
		res, err := treecopy.Copy(t.Context(), treecopy.Job{Sources: []treecopy.Source{{Tree: from, Name: "d"}}, To: c.Tree(), Target: "new/er", Options: o})
		if err != nil || res.Copied != int64(len(files)) || res.Skipped != 1 {
			t.Errorf("%+v: %+v, %v", o, res, err)
		}
		for name, content := range files {
			if b, err := os.ReadFile(filepath.Join(dir, "new/er", name[2:])); !bytes.Equal(b, content) {
				t.Errorf("%+v: %s has %d bytes of %d, %v", o, name, len(b), len(content), err)
			}
		}
		if _, err := os.Stat(filepath.Join(dir, "new/er/none")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("a directory without files: %v", err)
		}
	}
}

// A cutBody breaks the connection after a number of bytes.
type cutBody struct {
	io.Reader
	left int64
}

func (c *cutBody) Read(p []byte) (int, error) {
	if c.left == 0 {
		panic(http.ErrAbortHandler)
	}
	n, err := c.Reader.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}
