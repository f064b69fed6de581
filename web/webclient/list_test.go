package webclient

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/store/treecopy"
)

// Three servers list the same directory, each in its own format.
func TestList(t *testing.T) {
	for who, text := range map[string]string{
		"haul": `[{"name":"a","type":"file","size":5,"mtime":"2026-01-02T03:04:05Z"},
			{"name":"d","type":"directory","mtime":"2026-01-02T03:04:05Z"}]`,
		"nginx": `[{ "name":"d", "type":"directory", "mtime":"Fri, 02 Jan 2026 03:04:05 GMT" },
			{ "name":"a", "type":"file", "mtime":"Fri, 02 Jan 2026 03:04:05 GMT", "size":5 }]`,
		"Caddy": `[{"name":"a","size":5,"url":"./a","mod_time":"2026-01-02T04:04:05.123+01:00","mode":420,"is_dir":false,"is_symlink":false},
			{"name":"d/","size":4096,"url":"./d/","mod_time":"2026-01-02T04:04:05.123+01:00","mode":2147484141,"is_dir":true,"is_symlink":false}]`,
		"others": `{"path":"/","more":{"entries":[1]},"entries":[{"name":"a","size":5,"modified":"2026-01-02T03:04:05Z"},{"name":"d","type":"dir","modified":"2026-01-02T03:04:05Z"}],"x":[]}`,
	} {
		l := startLab(t, nil)
		l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
			if r.URL.Path != "/sub/" || !strings.HasPrefix(r.Header.Get("Accept"), "application/json,") {
				t.Errorf("asked for %s as %q", r.URL.Path, r.Header.Get("Accept"))
			}
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			_, _ = io.WriteString(w, text)
			return true
		})
		list, err := l.client(Config{}).ReadDir(t.Context(), "sub")
		if err != nil || len(list) != 2 {
			t.Errorf("%s: %v, %v", who, list, err)
			continue
		}
		a, err := list[0].Info()
		if err != nil || a.Name() != "a" || a.Size() != 5 || a.IsDir() || !a.ModTime().Equal(labTime) {
			t.Errorf("%s: a is %v, %v", who, a, err)
		}
		d, err := list[1].Info()
		if err != nil || d.Name() != "d" || !d.IsDir() || !d.ModTime().Equal(labTime) {
			t.Errorf("%s: d is %v, %v", who, d, err)
		}
	}
}

func TestListRefused(t *testing.T) {
	long := "[" + strings.Repeat(`{"name":"a"},`, maxEntries) + `{"name":"b"}]`
	for _, c := range []struct {
		status     int
		kind, text string
		want       error
	}{
		{200, "text/html", "<html>", errors.ErrUnsupported},
		{406, "text/plain", "", errors.ErrUnsupported},
		{404, "text/plain", "", fs.ErrNotExist},
		{403, "text/plain", "", fs.ErrPermission},
		{200, "application/json", "", ErrProtocol},
		{200, "application/json", "{}", ErrProtocol},
		{200, "application/json", `{"entries":{}}`, ErrProtocol},
		{200, "application/json", "[1]", ErrProtocol},
		{200, "application/json", `[{"name":"a"}`, ErrProtocol},
		{200, "application/json", `[{"name":"a"},{"name":"a"}]`, ErrProtocol},
		{200, "application/json", strings.Repeat("[", 20000), ErrProtocol},
		{200, "application/json", long, ErrProtocol},
	} {
		l := startLab(t, nil)
		l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
			w.Header().Set("Content-Type", c.kind)
			w.WriteHeader(c.status)
			_, _ = io.WriteString(w, c.text)
			return true
		})
		_, err := l.client(Config{}).ReadDir(t.Context(), ".")
		wantIs(t, fmt.Sprintf("%d %s %.20s", c.status, c.kind, c.text), err, c.want)
	}
}

// If a name in a listing leads out of the target directory, nothing is written there.
func TestHostileNames(t *testing.T) {
	l := startLab(t, map[string][]byte{"d/good": []byte("good")})
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		switch r.URL.Path {
		case "/d":
			http.Redirect(w, r, "/d/", http.StatusMovedPermanently)
		case "/d/":
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `[{"name":"../out","size":4},{"name":"/abs","size":4},{"name":"..","type":"directory"},{"name":".","type":"directory"},
				{"name":"","size":4},{"name":"a\u0000b","size":4},{"name":"x/../../out","size":4},{"name":"good","size":4}]`)
		default:
			return false
		}
		return true
	})
	dir, result, err := copyToDir(t, l.client(Config{}), "d", treecopy.Options{Recursive: true})
	wantIs(t, "copy", err, treecopy.ErrUnsafeName)
	if result.Copied != 1 || result.Failed != 7 {
		t.Errorf("%+v", result)
	}
	if b, err := os.ReadFile(dir + "/d/good"); err != nil || !bytes.Equal(b, []byte("good")) {
		t.Errorf("good: %q, %v", b, err)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v", entries, err)
	}
}

// A tree is copied completely, and unchanged files are recognized by their times.
func TestTree(t *testing.T) {
	l := startLab(t, map[string][]byte{"t/a": []byte("aaa"), "t/s/b": []byte("bb"), "t/s/empty": nil})
	entry := func(name string, size int) string {
		return fmt.Sprintf(`{"name":%q,"type":"file","size":%d,"mtime":%q}`, name, size, labTime.Format(time.RFC3339))
	}
	lists := map[string]string{
		"/t/":   "[" + entry("a", 3) + `,{"name":"s","type":"directory"}]`,
		"/t/s/": "[" + entry("b", 2) + "," + entry("empty", 0) + "]",
	}
	l.setHook(func(w http.ResponseWriter, r *http.Request, n int) bool {
		if _, ok := lists[r.URL.Path+"/"]; ok {
			http.Redirect(w, r, r.URL.Path+"/", http.StatusMovedPermanently)
			return true
		}
		if text, ok := lists[r.URL.Path]; ok {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, text)
			return true
		}
		return false
	})
	c := l.client(Config{})
	o := treecopy.Options{Recursive: true, PreserveTimes: true, Unchanged: treecopy.SizeAndTime, Verify: true}
	dir, result, err := copyToDir(t, c, "t", o)
	if err != nil || result.Copied != 3 {
		t.Fatalf("%+v, %v", result, err)
	}
	for name, want := range map[string]string{"a": "aaa", "s/b": "bb", "s/empty": ""} {
		b, err := os.ReadFile(dir + "/t/" + name)
		fi, e := os.Stat(dir + "/t/" + name)
		if err != nil || e != nil || string(b) != want || !fi.ModTime().Equal(labTime) {
			t.Errorf("%s: %q, %v", name, b, errors.Join(err, e))
		}
	}
	o.Verify = false
	if result, err = copyTo(t, c, "t", dir, o); err != nil || result.Same != 3 {
		t.Errorf("again: %+v, %v", result, err)
	}
}
