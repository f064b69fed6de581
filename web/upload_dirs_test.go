package web_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/web"
)

// The directories above a file are created with it, for clients that may upload.
func TestPutMakesDirectories(t *testing.T) {
	st, path := dir(t, nil)
	for access, want := range map[web.Access]int{
		web.AccessRead: 405, web.AccessCreate: 201, web.AccessOverwrite: 201, web.AccessFull: 201, web.AccessUploadOnly: 201,
	} {
		h := &web.Handler{Store: st, Access: access}
		name := fmt.Sprintf("of%d/a/f", access)
		ask(t, h, "PUT /"+name, "content").want(t, want, "*")
		_, err := os.Stat(filepath.Join(path, name))
		if (err == nil) != (want == 201) {
			t.Errorf("access %d: %v", access, err)
		}
	}
	view := &web.Handler{Store: store.ReadOnly(st), Access: web.AccessFull}
	ask(t, view, "PUT /more/f", "x").want(t, 403, "*")
	drop := &web.Handler{Store: store.UploadOnly(st), Access: web.AccessUploadOnly}
	ask(t, drop, "PUT /more/f", "x").want(t, 201, "*")
	ask(t, drop, "PUT /more/f", "y").want(t, 409, "*")
}

// An upload that is refused, or fails, leaves no directory.
func TestPutMakesNothing(t *testing.T) {
	st, path := dir(t, map[string]string{"file": "x"})
	for name, to := range map[string]string{"out": t.TempDir(), "dangling": "gone"} {
		if err := os.Symlink(to, filepath.Join(path, name)); err != nil {
			t.Skip(err)
		}
	}
	h := &web.Handler{Store: st, Access: web.AccessOverwrite, MaxUpload: 1000}
	told := ended(h)
	hidden := ".haul-" + strings.Repeat("A", 26) + ".part"
	for _, c := range []struct {
		status       int
		target, body string
		field        string
	}{
		{412, "/new/f", "x", "If-Match: *"},
		{412, "/new/f", "x", "If-Match: " + other},
		{415, "/new/f", "x", "Content-Encoding: gzip"},
		{413, "/new/f", strings.Repeat("x", 1001), "X: x"},
		{400, "/new/f", "x", "Content-Range: bytes 0-5/6"},
		{413, "/new/f", "x", "Content-Range: bytes 0-0/2000"},
		{416, "/new/a/f", "x", "Content-Range: bytes 5-5/6"},
		{202, "/new/f", "", "Content-Range: bytes */6"},
		{409, "/new/", "x", "X: x"},
		{409, "/file/f", "x", "X: x"},
		{409, "/dangling/f", "x", "X: x"},
		{403, "/out/new/f", "x", "X: x"},
		{403, "/new/" + hidden + "/f", "x", "X: x"},
		{400, "/new/../f", "x", "X: x"},
		{400, "/new/" + strings.Repeat("x", 300) + "/f", "x", "X: x"},
		{400, "/new" + strings.Repeat("/d", 64) + "/f", "x", "X: x"},
	} {
		a := ask(t, h, "PUT "+c.target, c.body, c.field)
		a.want(t, c.status, "*")
		if c.status == 202 {
			a.wantField(t, "Upload-Offset", "0")
		}
		<-told
		wantNames(t, path, "dangling", "file", "out")
		if t.Failed() {
			t.Fatalf("%s with %s", c.target, c.field)
		}
	}
	// A request that asks how many bytes the server has does not create a directory either, not
	// even briefly.
	h2 := &web.Handler{Store: noParents{st, t}, Access: web.AccessOverwrite}
	ask(t, h2, "PUT /new/f", "", "Content-Range: bytes */6").want(t, 202, "*")
	// A client leaves in the middle of an upload.
	conn, _ := talk(t, h, "PUT /new/a/f HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\nonly so much")
	conn.Close()
	if x := <-told; x.Err == nil {
		t.Errorf("ended with %d", x.Status)
	}
	wantNames(t, path, "dangling", "file", "out")
	// A condition holds when the upload begins, but no longer when it is committed.
	h.Started = func(*web.Exchange) { writeFile(t, filepath.Join(path, "new/f"), "between") }
	ask(t, h, "PUT /new/f", "x", "If-None-Match: *").want(t, 412, "*")
	wantNames(t, filepath.Join(path, "new"), "f")
	if got := content(t, st, "new/f"); got != "between" {
		t.Errorf("the file is %q", got)
	}
}

// noParents is a store that fails the test if it is asked to make directories.
type noParents struct {
	store.Store
	t *testing.T
}

func (n noParents) Create(ctx context.Context, name string, c store.Create) (store.Upload, error) {
	if c.Parents {
		n.t.Errorf("directories are to be made for %s", name)
	}
	return n.Store.Create(ctx, name, c)
}

// An upload in parts resumes in the directory that its first part has created.
func TestPutPartsMakeDirectories(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the store keeps uploads where there are locks")
	}
	st, path := dir(t, nil)
	h := &web.Handler{Store: st, Access: web.AccessCreate}
	ask(t, h, "PUT /a/b/f", "01234", "Content-Range: bytes 0-4/10").want(t, http.StatusAccepted, "*")
	ask(t, h, "PUT /a/b/f", "", "Content-Range: bytes */10").wantField(t, "Upload-Offset", "5")
	ask(t, h, "PUT /a/b/f", "56789", "Content-Range: bytes 5-9/10").want(t, http.StatusCreated, "*")
	wantNames(t, filepath.Join(path, "a/b"), "f")
	if got := content(t, st, "a/b/f"); got != "0123456789" {
		t.Errorf("the file is %q", got)
	}
}
