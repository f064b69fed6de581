//go:build unix

package interop

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// A cutter forwards connections, and cuts each one after a certain number of bytes, as long as
// there are cuts left.
type cutter struct {
	net.Listener
	after, cuts atomic.Int64
}

func startCutter(t *testing.T, to string) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c := &cutter{Listener: l}
	go func() {
		for {
			here, err := l.Accept()
			if err != nil {
				return
			}
			go c.forward(here, to)
		}
	}()
	return c
}

func (c *cutter) forward(here net.Conn, to string) {
	defer here.Close()
	there, err := net.Dial("tcp", to)
	if err != nil {
		return
	}
	defer there.Close()
	go func() {
		_, _ = io.Copy(here, there)
		here.Close()
	}()
	buf := make([]byte, 64<<10)
	for brought := int64(0); ; {
		n, err := here.Read(buf)
		brought += int64(n)
		if after := c.after.Load(); after > 0 && brought > after && c.cuts.Add(-1) >= 0 {
			return
		}
		if _, writeErr := there.Write(buf[:n]); err != nil || writeErr != nil {
			return
		}
	}
}

// choose makes the page take files, as the dialog of a browser does.
func (p *tab) choose(files ...string) {
	p.t.Helper()
	node := p.call("Runtime.evaluate", object{"expression": "document.getElementById('files')"})["result"].(object)
	p.call("DOM.setFileInputFiles", object{"files": files, "objectId": node["objectId"]})
}

// drop drops files on the page.
func (p *tab) drop(files ...string) {
	p.t.Helper()
	for _, kind := range []string{"dragEnter", "dragOver", "drop"} {
		p.call("Input.dispatchDragEvent", object{"type": kind, "x": 200, "y": 200, "data": object{"items": []object{}, "files": files, "dragOperationsMask": 1}})
	}
}

// state returns an expression for the page's text about the upload of a file.
func state(name string) string {
	return fmt.Sprintf("[...document.querySelectorAll('#uploads li')].find(l => l.querySelector('bdi').textContent === %q)?.querySelector('span').innerText", name)
}

// The page uploads several files, survives a lost connection, replaces nothing without asking,
// and forgets canceled uploads.
func TestHTTPBrowserUploads(t *testing.T) {
	t.Parallel()
	const big = 24 << 20
	dir, here := t.TempDir(), t.TempDir()
	hostile := `<img src=x onerror=alert(1)>%2F#?&"`
	sizes := map[string]int{"a": 70_000, "big": big, "empty": 0, hostile: 3}
	var all []string
	for name, size := range sizes {
		if err := os.WriteFile(filepath.Join(here, name), content(size), 0o644); err != nil {
			t.Fatal(err)
		}
		all = append(all, filepath.Join(here, name))
	}
	url, d := serveWeb(t, dir, "--http", "127.0.0.1:0", "--listing", "--upload", "overwrite")
	c := startCutter(t, strings.TrimPrefix(url, "http://"))
	b := startBrowser(t)
	for i, theme := range []string{"light", "dark"} {
		width := []int{1280, 390}[i]
		sub := filepath.Join(dir, theme)
		if err := os.MkdirAll(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sub, "a"), []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
		c.after.Store(big / 2)
		c.cuts.Store(8) // Chromium itself repeats requests that are lost on a reused connection
		p := b.open(t, "http://"+c.Addr().String()+"/"+theme+"/", width, 844, theme)
		if theme == "dark" {
			p.eval(noHashes)
		}
		p.choose(all...)
		p.await(state("big") + "?.endsWith('uploaded')")
		p.await(state(hostile) + "?.endsWith('uploaded')")
		p.await("document.querySelectorAll('#list tr').length === 5") // the list is updated, and has "../"
		for name, size := range sizes {
			if name != "a" && size > 0 {
				wantFile(t, filepath.Join(sub, name), content(size))
			}
		}
		if !regexp.MustCompile(`file=/` + theme + `/big .*range="bytes [1-9]`).MatchString(d.said(1000)) {
			t.Error("the upload was not resumed")
		}
		wantFile(t, filepath.Join(sub, "a"), []byte("old"))
		p.want(state("a"), "a file has that name")
		p.picture("uploads-" + theme + fmt.Sprint(width))
		p.wantSound()
		p.eval("document.querySelector('[aria-label=\"Replace a\"]').click()")
		p.await(state("a") + ".endsWith('uploaded')")
		wantFile(t, filepath.Join(sub, "a"), content(sizes["a"]))
		p.want("document.getElementById('uploaded').innerText", "4 uploaded")
		p.wantSound()
		p.eval("onbeforeunload = null")
	}
}

// noHashes makes the page as one of another machine is by HTTP, where browsers compute no hashes.
const noHashes = "Object.defineProperty(crypto, 'subtle', {value: undefined}); 0"

// An upload that was cut off is resumed by the file of the same size, time and beginning, and by no
// other file: it would get the beginning of the first one. Where the page cannot compare the
// beginnings, a file that is chosen again is sent anew.
func TestHTTPBrowserResumesItsOwn(t *testing.T) {
	t.Parallel()
	const size, kept = 4 << 20, 3 << 20
	dir, here := t.TempDir(), t.TempDir()
	url, d := serveWeb(t, dir, "--http", "127.0.0.1:0", "--listing", "--upload", "create")
	when := time.Unix(1_700_000_000, 0)
	first := content(size)
	other := bytes.Clone(first)
	other[1<<20-1]++
	old := fmt.Sprintf("page-%d-%d", size, when.UnixMilli())
	of := func(file []byte) string { return fmt.Sprintf("%s-%x", old, sha256.Sum256(file[:1<<20])) }
	b := startBrowser(t)
	for _, c := range []struct {
		name, source string // of the upload that was cut off, whose file is the first one
		file         []byte
		hashes       bool
		from         int
	}{
		{"same", of(first), first, true, kept},
		{"other", of(first), other, true, 0},
		{"size-and-time", old, other, true, 0},
		{"no-hashes", of(first), first, false, 0},
		{"no-hashes-other", old, other, false, 0},
	} {
		q, err := http.NewRequest(http.MethodPut, url+"/"+c.name, bytes.NewReader(first[:kept]))
		if err != nil {
			t.Fatal(err)
		}
		q.Header.Set("Content-Range", fmt.Sprintf("bytes 0-%d/%d", kept-1, size))
		q.Header.Set("Upload-Source", c.source)
		a, err := http.DefaultClient.Do(q)
		if err != nil || a.StatusCode != http.StatusAccepted {
			t.Fatal(a, err)
		}
		a.Body.Close()
		path := filepath.Join(here, c.name)
		if err := errors.Join(os.WriteFile(path, c.file, 0o644), os.Chtimes(path, when, when)); err != nil {
			t.Fatal(err)
		}
		p := b.open(t, url+"/", 390, 844, "light")
		if !c.hashes {
			p.eval(noHashes)
		}
		p.choose(path)
		p.await(state(c.name) + "?.endsWith('uploaded')")
		wantFile(t, filepath.Join(dir, c.name), c.file)
		if said := d.said(1000); !regexp.MustCompile(fmt.Sprintf(`file=/%s .*range="bytes %d-%d/`, c.name, c.from, size-1)).MatchString(said) {
			t.Errorf("%s: the upload did not begin at %d: %s", c.name, c.from, said)
		}
		p.wantSound()
		p.eval("onbeforeunload = null")
	}
}

// Files can be dropped; a canceled upload leaves nothing; and if nothing may be replaced, the
// page does not offer it.
func TestHTTPBrowserDrop(t *testing.T) {
	t.Parallel()
	dir, here := t.TempDir(), t.TempDir()
	for name, size := range map[string]int{"one": 10, "two": 65<<20 + 1, "slow": 1} { // the second takes two parts
		if err := os.WriteFile(filepath.Join(here, name), content(size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const slow = 512 << 20 // bytes: seconds at the rate below
	if err := os.Truncate(filepath.Join(here, "slow"), slow); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(here, "folder"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "one"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	url, _ := serveWeb(t, dir, "--http", "127.0.0.1:0", "--listing", "--upload", "create", "--http-rate", "64MiB")
	p := startBrowser(t).open(t, url+"/", 390, 844, "light")
	p.drop(filepath.Join(here, "one"), filepath.Join(here, "two"), filepath.Join(here, "folder"))
	p.await(state("two") + "?.endsWith('uploaded')")
	wantFile(t, filepath.Join(dir, "two"), content(65<<20+1))
	p.await(state("one") + "?.endsWith('may not be replaced')")
	p.want("document.querySelectorAll('[aria-label=\"Replace one\"]').length", 0)
	wantFile(t, filepath.Join(dir, "one"), []byte("old"))

	// A file that has changed since it was chosen cannot be read. Once dismissed, it no longer
	// counts.
	if err := os.WriteFile(filepath.Join(here, "one"), content(11), 0o644); err != nil {
		t.Fatal(err)
	}
	p.eval("document.querySelector('[aria-label=\"Try again one\"]').click()")
	p.await(state("one") + "?.startsWith('the file cannot be read')")
	p.want("document.getElementById('uploaded').innerText", "1 uploaded, 1 not uploaded")
	p.eval("document.querySelector('[aria-label=\"Dismiss one\"]').click()")
	p.want("document.getElementById('uploaded').innerText", "1 uploaded")

	p.drop(filepath.Join(here, "slow"))
	p.await(state("slow") + "?.includes(' of ')")
	p.eval("document.querySelector('[aria-label=\"Cancel slow\"]').click()")
	p.await(state("slow") + " === 'canceled'")
	p.await("fetch('slow', {method: 'PUT', headers: {'Content-Range': 'bytes */536870912', 'Upload-Source': 'canceled'}}).then(r => r.headers.get('Upload-Offset') === '0')")
	if _, err := os.Stat(filepath.Join(dir, "slow")); err == nil {
		t.Error("a file that was canceled is there")
	}
	p.wantSound()
}

// A page of another site cannot upload, whatever it tries.
func TestHTTPBrowserCrossOrigin(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	url, _ := serveWeb(t, dir, "--http", "127.0.0.1:0", "--listing", "--upload", "overwrite")
	site := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "<!doctype html><title>x</title>") }))
	defer site.Close()
	p := startBrowser(t).open(t, site.URL, 390, 844, "light")
	for _, options := range []string{"", ", mode: 'no-cors'", ", credentials: 'include'"} {
		p.want("fetch('"+url+"/evil', {method: 'PUT', body: 'x'"+options+"}).then(r => r.status, e => 'refused')", "refused")
	}
	// The method changes nothing.
	p.want("fetch('"+url+"/evil', {method: 'POST', body: 'x', mode: 'no-cors'}).then(r => r.type, e => 'refused')", "opaque")
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("there is %v, %v", left, err)
	}
}
