package webclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/store/treecopy"
)

// stored returns the content that the lab has received under a name.
func (l *lab) stored(name string) ([]byte, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	b, ok := l.put[name]
	return b, ok
}

// putFile copies a file with this content to a server.
func putFile(t *testing.T, c *Client, content []byte, o treecopy.Options) (treecopy.Result, error) {
	t.Helper()
	return putFrom(t, c, localFile(t, content), o)
}

// localFile returns a directory with a file f.
func localFile(t *testing.T, content []byte) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "f"), content, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func putFrom(t *testing.T, c *Client, dir string, o treecopy.Options) (treecopy.Result, error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	return treecopy.Copy(t.Context(), treecopy.Job{Sources: []treecopy.Source{{Tree: localdir.New(root), Name: "f"}}, To: c.Tree(), Target: "f", Options: o})
}

func TestPut(t *testing.T) {
	for _, size := range []int{0, 1, 2, 1000, expectFrom - 1, expectFrom, 3<<20 + 1} {
		l := startLab(t, nil)
		content := randomContent(size)
		if _, err := putFile(t, l.client(Config{}), content, treecopy.Options{}); err != nil {
			t.Errorf("%d bytes: %v", size, err)
			continue
		}
		if got, _ := l.stored("f"); !bytes.Equal(got, content) {
			t.Errorf("%d bytes: %d other ones have come", size, len(got))
		}
		for _, r := range l.asked() {
			if r.Method == http.MethodPut && r.ContentLength != int64(size) {
				t.Errorf("%d bytes: Content-Length is %d", size, r.ContentLength)
			}
		}
	}
}

// Data written piece by piece arrives unchanged, with or without a known size.
func TestPutWrites(t *testing.T) {
	content := randomContent(1 << 20)
	for _, size := range []int64{0, 1 << 20} {
		for _, piece := range []int{1 << 20, 100_000, 1<<20 - 1} {
			l := startLab(t, nil)
			u, err := l.client(Config{}).Create(t.Context(), "f", store.Create{Size: size})
			if err != nil {
				t.Fatal(err)
			}
			for off := 0; off < len(content); off += piece {
				if n, err := u.WriteAt(content[off:min(off+piece, len(content))], int64(off)); err != nil || n != min(piece, len(content)-off) {
					t.Fatal(n, err)
				}
			}
			if err := u.Truncate(int64(len(content))); err != nil {
				t.Error(err)
			}
			if _, there := l.stored("f"); there && size > 0 {
				t.Error("it has its name before Commit")
			}
			if err := u.Commit(); err != nil {
				t.Error(err)
			}
			if got, _ := l.stored("f"); !bytes.Equal(got, content) {
				t.Errorf("size %d, pieces of %d: %d other bytes have come", size, piece, len(got))
			}
			if err := u.Close(); err != nil {
				t.Error(err)
			}
			_, err = u.WriteAt([]byte("x"), int64(len(content)))
			wantIs(t, "write behind Commit", err, fs.ErrClosed)
		}
	}
}

// An upload that is given up leaves no file on the server.
func TestPutGivenUp(t *testing.T) {
	for _, size := range []int64{0, 1000} {
		l := startLab(t, nil)
		ended := make(chan error, 1)
		l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
			_, err := io.ReadAll(r.Body)
			ended <- err
			return true
		})
		u, err := l.client(Config{}).Create(t.Context(), "f", store.Create{Size: size})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := u.WriteAt(randomContent(1000), 0); err != nil {
			t.Fatal(err)
		}
		if err := u.Close(); err != nil {
			t.Error(err)
		}
		if err := <-ended; err == nil {
			t.Errorf("size %d: to the server the upload was whole", size)
		}
		wantIs(t, "commit", u.Commit(), fs.ErrClosed)
	}
}

// Data that is out of order, too long or too short is an error.
func TestPutOrder(t *testing.T) {
	l := startLab(t, nil)
	c := l.client(Config{})
	create := func(size int64) store.Upload {
		u, err := c.Create(t.Context(), "f", store.Create{Size: size})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { u.Close() })
		return u
	}
	_, err := create(10).WriteAt([]byte("x"), 5)
	wantIs(t, "a gap", err, errors.ErrUnsupported)
	_, err = create(10).WriteAt(make([]byte, 11), 0)
	wantIs(t, "too much", err, errGrown)
	u := create(10)
	if _, err := u.WriteAt(make([]byte, 9), 0); err != nil {
		t.Fatal(err)
	}
	wantIs(t, "cut", u.Truncate(5), errors.ErrUnsupported)
	wantIs(t, "too little", u.Commit(), io.ErrUnexpectedEOF)
	if _, there := l.stored("f"); there {
		t.Error("something has its name")
	}
	for _, name := range []string{".", "../f", "a//b"} {
		if _, err := c.Create(t.Context(), name, store.Create{}); err == nil {
			t.Errorf("Create(%q) goes", name)
		}
	}
}

func TestPutExclusive(t *testing.T) {
	l := startLab(t, nil)
	c := l.client(Config{})
	for i, want := range []error{nil, fs.ErrExist} {
		u, err := c.Create(t.Context(), "f", store.Create{Size: 5, Exclusive: true})
		if err != nil {
			t.Fatal(err)
		}
		_, err = u.WriteAt([]byte("hello"), 0)
		if err == nil {
			err = u.Commit()
		}
		u.Close()
		if !errors.Is(err, want) {
			t.Errorf("try %d: %v, want %v", i, err, want)
		}
	}
}

// If a server refuses an upload, the error has the matching kind.
func TestPutRefused(t *testing.T) {
	content := randomContent(4 << 20)
	for code, kind := range map[int]error{
		http.StatusForbidden: fs.ErrPermission, http.StatusMethodNotAllowed: errors.ErrUnsupported, http.StatusNotFound: fs.ErrNotExist,
		http.StatusInsufficientStorage: store.ErrNoSpace, http.StatusLocked: store.ErrBusy, http.StatusUnauthorized: ErrLogin,
		http.StatusAccepted: ErrProtocol, http.StatusPartialContent: ErrProtocol,
	} {
		for _, reads := range []bool{true, false} {
			l := startLab(t, nil)
			l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
				if r.Method != http.MethodPut {
					return false
				}
				if reads {
					_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, 1<<20))
				}
				w.Header().Set("Content-Type", "text/plain")
				w.WriteHeader(code)
				fmt.Fprintln(w, "for a reason\x1b[2J")
				return true
			})
			_, err := putFile(t, l.client(Config{}), content, treecopy.Options{})
			if !reads { // the server has not read the body, and its answer must still be reported
				wantIs(t, fmt.Sprint(code), err, kind)
				if code >= 400 && (!strings.Contains(err.Error(), "for a reason") || strings.Contains(err.Error(), "\x1b")) {
					t.Errorf("%d: %q", code, err)
				}
			}
			if err == nil || !IsRemote(err) {
				t.Errorf("%d: %v is not the server's", code, err)
			}
		}
	}
}

// If a server creates no directories, the error says that the directory is missing, and what to do.
// If the server refuses for another reason, the error does not say that.
func TestPutNoDirectory(t *testing.T) {
	for _, code := range []int{http.StatusConflict, http.StatusNotFound} {
		for name, missing := range map[string]bool{"none/f": true, "there/f": false, "f": false} {
			l := startLab(t, map[string][]byte{"there": nil})
			l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
				switch r.Method {
				case http.MethodOptions:
					w.Header().Set(acceptUploadRange, "bytes")
				case http.MethodPut:
					_, _ = io.Copy(io.Discard, r.Body)
					w.WriteHeader(code)
				default:
					return false
				}
				return true
			})
			for _, o := range []store.Create{{}, {Size: 5, Resume: "me"}} {
				u, err := l.client(Config{}).Create(t.Context(), name, o)
				if err == nil {
					if _, err = u.WriteAt([]byte("hello"), 0); err == nil {
						err = u.Commit()
					}
					u.Close()
				}
				said := err != nil && strings.Contains(err.Error(), "the directory "+l.URL+"/none is missing") && strings.Contains(err.Error(), "make it there first")
				if err == nil || !IsRemote(err) || said != missing || !strings.Contains(err.Error(), fmt.Sprint(code)) {
					t.Errorf("%d for %s: %v", code, name, err)
				}
			}
		}
	}
}

// If a server reports success before it has received everything, that is an error.
func TestPutEarly(t *testing.T) {
	l := startLab(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if r.Method != http.MethodPut {
			return false
		}
		w.WriteHeader(http.StatusCreated)
		return true
	})
	_, err := putFile(t, l.client(Config{}), randomContent(4<<20), treecopy.Options{})
	wantIs(t, "put", err, ErrProtocol)
}

// If the server requires a login in the middle of an upload, the client logs in, and the upload is
// complete.
func TestPutLogin(t *testing.T) {
	content := randomContent(3 << 20)
	l := startLab(t, nil)
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if _, _, ok := r.BasicAuth(); ok || r.Method != http.MethodPut {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	c := l.client(Config{Password: func(context.Context, string, string, string) (string, string, error) { return "me", "secret", nil }})
	if _, err := putFile(t, c, content, treecopy.Options{}); err != nil {
		t.Fatal(err)
	}
	if got, _ := l.stored("f"); !bytes.Equal(got, content) {
		t.Errorf("%d other bytes have come", len(got))
	}
}

// An upload also follows a redirect that keeps the method.
func TestPutRedirect(t *testing.T) {
	content := randomContent(3 << 20)
	for _, code := range []int{http.StatusTemporaryRedirect, http.StatusPermanentRedirect, http.StatusFound} {
		l := startLab(t, nil)
		l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
			if r.Method != http.MethodPut || r.URL.Path != "/f" {
				return false
			}
			http.Redirect(w, r, "/elsewhere", code)
			return true
		})
		_, err := putFile(t, l.client(Config{}), content, treecopy.Options{})
		got, there := l.stored("elsewhere")
		if code == http.StatusFound {
			wantIs(t, "302", err, ErrProtocol)
			if there {
				t.Error("302: something has come")
			}
			continue
		}
		if err != nil || !bytes.Equal(got, content) {
			t.Errorf("%d: %d bytes, %v", code, len(got), err)
		}
	}
}

// If the source cannot be read, the error is local, and no file remains on the server.
func TestPutLocalError(t *testing.T) {
	broken := errors.New("the disk is broken")
	l := startLab(t, nil)
	for _, at := range []int64{0, 1000, 2<<20 - 1} {
		u, err := l.client(Config{}).Create(t.Context(), "f", store.Create{Size: 2 << 20})
		if err != nil {
			t.Fatal(err)
		}
		_, err = u.(store.Filler).FillFrom(t.Context(), &brokenReader{at, broken}, 0, 2<<20)
		wantIs(t, fmt.Sprintf("at %d", at), err, broken)
		if IsRemote(err) {
			t.Errorf("%v is said to be the server's", err)
		}
		u.Close()
		if _, there := l.stored("f"); there {
			t.Error("something has its name")
		}
	}
}

// A brokenReader returns zeros up to an offset, and then fails.
type brokenReader struct {
	end int64
	err error
}

func (b *brokenReader) ReadAt(p []byte, off int64) (int, error) {
	if off >= b.end {
		return 0, b.err
	}
	n := int(min(int64(len(p)), b.end-off))
	clear(p[:n])
	if n < len(p) {
		return n, b.err
	}
	return n, nil
}

// When its context ends, an upload stops, whichever call is waiting.
func TestPutEnds(t *testing.T) {
	l := startLab(t, nil)
	begun := make(chan struct{}, 1)
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		_, _ = io.CopyN(io.Discard, r.Body, 10)
		begun <- struct{}{}
		_, _ = io.Copy(io.Discard, r.Body)
		return true
	})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	u, err := l.client(Config{}).Create(ctx, "f", store.Create{Size: 1 << 40})
	if err != nil {
		t.Fatal(err)
	}
	defer u.Close()
	piece := make([]byte, 64<<10)
	if _, err := u.WriteAt(piece, 0); err != nil {
		t.Fatal(err)
	}
	<-begun
	cancel()
	for off := int64(len(piece)); err == nil; off += int64(len(piece)) {
		_, err = u.WriteAt(piece, off)
	}
	wantIs(t, "write", err, context.Canceled)
}
