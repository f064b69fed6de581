package web_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/haul-project/haul/internal/race"
	"github.com/haul-project/haul/store"
	"github.com/haul-project/haul/store/localdir"
	"github.com/haul-project/haul/web"
)

func TestListing(t *testing.T) {
	hostile := []string{`<script>alert(1)<script>`, `"quotes" & 'apostrophes'`, "a:b", "100%?#.txt", "back\x07bell", "bidi\u202e", "-", "javascript:alert(1)", "space at end ", "new\nline", "ünïcödé"}
	files := map[string]string{"kernel": "image", "sub/inner": "x"}
	for _, name := range hostile {
		files[name] = "x"
	}
	st := mem(t, files)
	h := &web.Handler{Store: st, Listing: true}
	a := ask(t, h, "GET /", "")
	a.wantField(t, "Content-Type", "text/html; charset=utf-8")
	a.wantField(t, "Vary", "Accept")
	a.wantField(t, "X-Content-Type-Options", "nosniff")
	a.wantField(t, "Content-Security-Policy", policyFor(t, a.body))
	if strings.Contains(a.body, "<script>alert") || strings.Contains(a.body, `href="javascript:`) {
		t.Error("a name has become a script")
	}
	if !strings.Contains(a.body, "<bdi>bidi\u202e</bdi>") {
		t.Error("a name that turns the direction of text is not set apart")
	}
	// Each link leads to the entry that it names, and the links are in order.
	base, _ := url.Parse("http://host/")
	var names []string
	for _, m := range regexp.MustCompile(`<td><a href="([^"]*)">`).FindAllStringSubmatch(a.body, -1) {
		ref, err := base.Parse(strings.NewReplacer("&amp;", "&", "&#39;", "'", "&#34;", `"`).Replace(m[1]))
		if err != nil || ref.Host != "host" {
			t.Errorf("the link %s: %v, %v", m[1], ref, err)
			continue
		}
		names = append(names, strings.TrimPrefix(ref.Path, "/"))
		want := 200
		if got := ask(t, h, "GET "+ref.RequestURI(), ""); got.status != want {
			t.Errorf("%s leads to %d", m[1], got.status)
		}
	}
	want := append(slices.Clone(hostile), "kernel", "sub/")
	slices.Sort(want)
	if !slices.Equal(names, want) {
		t.Errorf("lists %q, want %q", names, want)
	}
	for _, part := range []string{"<title>/</title>", "5 B", "2026-01-02 03:04", fmt.Sprintf(">%d entries<", len(want))} {
		if !strings.Contains(a.body, part) {
			t.Errorf("lacks %q", part)
		}
	}
	sub := ask(t, h, "GET /sub/", "")
	if !strings.Contains(sub.body, `<a href="../">`) || !strings.Contains(sub.body, "<h1><bdi>sub</bdi></h1>") || !strings.Contains(sub.body, "<title>/sub/</title>") {
		t.Error(sub.body)
	}
	if head := ask(t, h, "HEAD /sub/", ""); head.status != 200 || head.body != "" || head.header.Get("Content-Type") != a.header.Get("Content-Type") {
		t.Errorf("HEAD: %+v", head)
	}
	ask(t, h, "HEAD /none/", "").want(t, 404, "")
	ask(t, h, "HEAD /kernel/", "").want(t, 404, "")
}

// A listing is sorted according to its query, and its headings lead to the other orders.
func TestListingSorted(t *testing.T) {
	st := mem(t, map[string]string{"b": "1", "a": "333", "d": "22", "c": "333", "sub/x": "x", "dir/x": "x"})
	at := old
	for _, name := range []string{"c", "dir", "a", "d", "sub", "b"} { // oldest first
		at = at.Add(time.Hour)
		touch(t, st, name, at)
	}
	h := &web.Handler{Store: st, Listing: true}
	link := regexp.MustCompile(`<td><a href="([^"]*)">`)
	for query, want := range map[string]string{
		"": "a b c d dir/ sub/", "?sort=name": "a b c d dir/ sub/", "?sort=name&order=desc": "sub/ dir/ d c b a",
		"?sort=size": "dir/ sub/ b d a c", "?sort=size&order=desc": "dir/ sub/ a c d b",
		"?sort=time": "c dir/ a d sub/ b", "?sort=time&order=desc": "b sub/ d a dir/ c",
		"?sort=%3Cscript%3E&order=%22": "a b c d dir/ sub/", "?order=desc": "sub/ dir/ d c b a", "?sort=size&%zz": "dir/ sub/ b d a c",
	} {
		body := ask(t, h, "GET /"+query, "").body
		var names []string
		for _, m := range link.FindAllStringSubmatch(body, -1) {
			names = append(names, m[1])
		}
		if got := strings.Join(names, " "); got != want {
			t.Errorf("%s: %s, want %s", query, got, want)
		}
		if strings.Count(body, "<script") != 1 {
			t.Errorf("%s: the query is in the page", query)
		}
		var all []listed
		if err := json.Unmarshal([]byte(ask(t, h, "GET /"+query, "", "Accept: application/json").body), &all); err != nil {
			t.Fatal(err)
		}
		for i, l := range all {
			if l.Name != strings.TrimSuffix(names[i], "/") {
				t.Errorf("%s: as JSON %+v", query, all)
				break
			}
		}
	}
	for query, want := range map[string][]string{
		"":                      {"?sort=name&order=desc", "?sort=size&order=asc", "?sort=time&order=asc"},
		"?sort=size&order=asc":  {"?sort=name&order=asc", "?sort=size&order=desc", "?sort=time&order=asc"},
		"?sort=size&order=desc": {"?sort=name&order=asc", "?sort=size&order=asc", "?sort=time&order=asc"},
	} {
		var links []string
		for _, m := range regexp.MustCompile(`<th[^>]*><a href="([^"]*)">`).FindAllStringSubmatch(ask(t, h, "GET /"+query, "").body, -1) {
			links = append(links, strings.ReplaceAll(m[1], "&amp;", "&"))
		}
		if !slices.Equal(links, want) {
			t.Errorf("%s: the headings lead to %q, want %q", query, links, want)
		}
	}
}

type listed struct {
	Name, Type string
	Size       *int64
	Mtime      time.Time
}

func TestListingJSON(t *testing.T) {
	names := []string{`"quote"`, "<tag>", "kernel", "new\nline", "ünï"}
	files := map[string]string{"sub/x": "x"}
	for _, n := range names {
		files[n] = "12345"
	}
	h := &web.Handler{Store: mem(t, files), Listing: true}
	var got []listed
	a := ask(t, h, "GET /?json", "")
	a.wantField(t, "Content-Type", "application/json")
	if err := json.Unmarshal([]byte(a.body), &got); err != nil {
		t.Fatal(err, a.body)
	}
	slices.Sort(names)
	at := slices.IndexFunc(got, func(l listed) bool { return l.Name == "sub" })
	if at < 0 || got[at].Type != "directory" || got[at].Size != nil {
		t.Fatalf("no directory in %+v", got)
	}
	got = slices.Delete(got, at, at+1)
	for i, l := range got {
		if l.Name != names[i] || l.Type != "file" || l.Size == nil || *l.Size != 5 || !l.Mtime.Equal(old.Truncate(time.Second)) {
			t.Errorf("entry %d is %+v", i, l)
		}
	}
	asked := map[string]bool{
		"": false, "*/*": false, "text/html": false, "application/json": true, "application/json, text/plain, */*": true,
		"application/json;q=0": false, "text/html, application/json": false, "text/html;q=0.5, application/json": true, "application/*": false,
	}
	for accept, wantJSON := range asked {
		a := ask(t, h, "GET /", "", "Accept: "+accept)
		if (a.header.Get("Content-Type") == "application/json") != wantJSON {
			t.Errorf("Accept: %q gives %s", accept, a.header.Get("Content-Type"))
		}
	}
	h = &web.Handler{Store: mem(t, nil), Listing: true}
	ask(t, h, "GET /?json", "").want(t, 200, "[]\n")
}

// Files that no client could get are not listed; a link is listed as its target.
func TestListingOfOddFiles(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs links, and names that Windows does not have")
	}
	st, path := dir(t, map[string]string{"file": "x", "sub/f": "x", `back\slash`: "x", ".haul-ABCDEFGHIJKLMNOPQRSTUVWXYZ.part": "x", ".dot": "x"})
	for link, to := range map[string]string{"tofile": "file", "todir": "sub", "dangling": "none", "outside": "/etc/passwd", "loop": "loop"} {
		if err := os.Symlink(to, filepath.Join(path, link)); err != nil {
			t.Fatal(err)
		}
	}
	h := &web.Handler{Store: st, Listing: true}
	var got []listed
	if err := json.Unmarshal([]byte(ask(t, h, "GET /?json", "").body), &got); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, l := range got {
		names = append(names, l.Name+" "+l.Type)
	}
	if want := []string{".dot file", "file file", "sub directory", "todir directory", "tofile file"}; !slices.Equal(names, want) {
		t.Errorf("lists %q, want %q", names, want)
	}
}

// listedNames returns the names in a directory's listing, and those of all directories below it.
func listedNames(t *testing.T, h http.Handler, dir string, most int) (names []string) {
	t.Helper()
	var got []listed
	if a := ask(t, h, "GET /"+dir+"?json", ""); json.Unmarshal([]byte(a.body), &got) != nil {
		t.Fatalf("%s: %d %s", dir, a.status, a.body)
	}
	for _, l := range got {
		names = append(names, dir+l.Name)
		if l.Type == "directory" && len(names) < most {
			names = append(names, listedNames(t, h, dir+l.Name+"/", most-len(names))...)
		}
	}
	return names
}

// A client that follows all links of listings finishes: a link to a directory above itself is not
// listed.
func TestListingOfLoops(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs links")
	}
	files := map[string]string{"m/file": "x", "m/sub/inner": "x", "n/other": "x"}
	onDisk, _ := dir(t, files)
	for kind, st := range map[string]store.Tree{"on disk": onDisk, "in memory": mem(t, files)} {
		for link, to := range map[string]string{
			"m/loop": ".", "m/loop2": "../m", "m/sub/up": "..", "m/sub/top": "../..", "m/side": "../n", "n/back": "../m", "n/self": "self",
		} {
			if err := st.Symlink(t.Context(), to, link); err != nil {
				t.Fatal(err)
			}
		}
		h := &web.Handler{Store: st, Listing: true}
		for at, want := range map[string]string{
			"m/": "m/file m/side m/side/other m/sub m/sub/inner",
			"n/": "n/back n/back/file n/back/sub n/back/sub/inner n/other",
		} {
			if got := strings.Join(listedNames(t, h, at, 10), " "); got != want {
				t.Errorf("%s: %s has %s, want %s", kind, at, got, want)
			}
		}
	}
}

// In a very deep directory, no links to directories are listed, because not all directories above
// are examined.
func TestListingOfDeepLinks(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs links")
	}
	for depth, want := range map[int]string{128: "file link", 129: "file"} {
		deep := strings.Repeat("d/", depth)
		st, path := dir(t, map[string]string{deep + "file": "x", "other/x": "x"})
		if err := os.Symlink(strings.Repeat("../", depth)+"other", filepath.Join(path, deep, "link")); err != nil {
			t.Fatal(err)
		}
		var names []string
		var got []listed
		if err := json.Unmarshal([]byte(ask(t, &web.Handler{Store: st, Listing: true}, "GET /"+deep+"?json", "").body), &got); err != nil {
			t.Fatal(err)
		}
		for _, l := range got {
			names = append(names, l.Name)
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%d deep: %q, want %s", depth, names, want)
		}
	}
}

// A crowd is a store with one large directory.
type crowd struct {
	store.Store
	n int
}

func (c crowd) Capabilities() store.Capabilities { return store.Capabilities{OpenDir: c.OpenDir} }

func (c crowd) OpenDir(context.Context, string) (store.Entries, error) {
	return &crowdEntries{left: c.n}, nil
}

type crowdEntries struct{ left int }

func (c *crowdEntries) Next(into []fs.FileInfo) (n int, err error) {
	for n < len(into) && c.left > 0 {
		c.left--
		into[n] = crowdInfo(fmt.Sprintf("file%07d", c.left))
		n++
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (c *crowdEntries) Close() error { return nil }

type crowdInfo string

func (c crowdInfo) Name() string       { return string(c) }
func (c crowdInfo) Size() int64        { return 7 }
func (c crowdInfo) Mode() fs.FileMode  { return 0o644 }
func (c crowdInfo) ModTime() time.Time { return old }
func (c crowdInfo) IsDir() bool        { return false }
func (c crowdInfo) Sys() any           { return nil }

// A directory of 100,000 files is listed in order, and sent while it is written.
func TestLargeListing(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	n := race.Fewer(100_000, 10)
	path := t.TempDir()
	for i := range n {
		if err := os.WriteFile(filepath.Join(path, fmt.Sprintf("%06d", i*7919%n)), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	h := &web.Handler{Store: localdir.New(root), Listing: true}
	s := serve(t, h)
	resp, err := s.Client().Get(s.URL + "/?json")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.ContentLength >= 0 {
		t.Errorf("the list was held back until its length was known: %d", resp.ContentLength)
	}
	d := json.NewDecoder(resp.Body)
	if _, err := d.Token(); err != nil {
		t.Fatal(err)
	}
	for i := range n {
		var l listed
		if err := d.Decode(&l); err != nil || l.Name != fmt.Sprintf("%06d", i) {
			t.Fatalf("entry %d is %+v, %v", i, l, err)
		}
	}
	if d.More() {
		t.Error("there are more")
	}
	if a := ask(t, h, "GET /", ""); a.status != 200 || strings.Count(a.body, "<tr><td>") != n || !strings.HasSuffix(a.body, "</html>\n") {
		t.Errorf("HTML: %d, %d lines", a.status, strings.Count(a.body, "<tr><td>"))
	}
}

// The entries of one list are bounded, and so are those of all lists in memory at a time.
func TestListingBounds(t *testing.T) {
	h := &web.Handler{Store: crowd{n: web.MaxListing + 1}, Listing: true}
	a := ask(t, h, "GET /", "")
	a.want(t, http.StatusInsufficientStorage, "the directory has too many entries to be listed\n")
	h = &web.Handler{Store: crowd{n: web.MaxListing}, Listing: true}
	w := &stuck{discard: discard{header: http.Header{}}, reached: make(chan struct{}, 4), release: make(chan struct{})}
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			r, err := http.NewRequestWithContext(t.Context(), "GET", "/", nil)
			if err != nil {
				t.Error(err)
				return
			}
			h.ServeHTTP(&stuck{discard{header: http.Header{}}, w.reached, w.release}, r)
		})
	}
	for range 4 {
		<-w.reached
	}
	a = ask(t, h, "GET /", "")
	a.want(t, http.StatusServiceUnavailable, "too many large directories are being listed\n")
	a.wantField(t, "Retry-After", "1")
	close(w.release)
	all.Wait()
	if a := ask(t, h, "GET /", ""); a.status != 200 {
		t.Errorf("when they are sent: %d %s", a.status, a.body)
	}
}

// stuck is a ResponseWriter whose peer receives nothing until it is released.
type stuck struct {
	discard
	reached, release chan struct{}
}

func (s *stuck) Write(p []byte) (int, error) {
	select {
	case s.reached <- struct{}{}:
	default:
	}
	<-s.release
	return len(p), nil
}

// Names that are not UTF-8 are listed, in JSON also by their bytes, and served by their
// percent-encoded names.
func TestListingNamesOfBytes(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("names are text there")
	}
	names := []string{"\xfe", "caf\xe9"}
	h := &web.Handler{Store: mem(t, map[string]string{names[0]: "x", names[1]: "x"}), Listing: true}
	for _, name := range names {
		ask(t, h, "GET /"+url.PathEscape(name), "").want(t, 200, "x")
		if a := ask(t, h, "GET /", ""); !strings.Contains(a.body, `href="`+url.PathEscape(name)+`"`) || !utf8.ValidString(a.body) {
			t.Errorf("%q is not linked, or the page is no UTF-8: %q", name, a.body)
		}
	}
	var list []struct {
		Name  string
		Bytes []byte `json:"name_bytes"`
	}
	a := ask(t, h, "GET /?json", "")
	if err := json.Unmarshal([]byte(a.body), &list); err != nil || len(list) != 2 {
		t.Fatalf("%s: %v", a.body, err)
	}
	for i, e := range list {
		if string(e.Bytes) != names[1-i] {
			t.Errorf("entry %d is %q", i, e.Bytes)
		}
	}
}
