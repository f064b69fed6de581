//go:build unix

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// hostileNames are names with which a file could be more than text in a page.
var hostileNames = []string{
	"<img src=x onerror=alert(1)>", `"onclick="alert(1)`, "javascript:alert(1)", "</title><script>alert(1)</script>", "</script>",
	"invoice\u202efdp.exe", "%2e%2e%2f", "a&lt;b", "{{.}}", "${alert(1)}", "new\nline", "?sort=size", "#top", "'; alert(1); '", "\xff\xfe",
	strings.Repeat("long", 60), strings.Repeat("ü ", 80),
}

// writeTree makes empty files with the same time.
func writeTree(t *testing.T, dir string, names ...string) {
	t.Helper()
	at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, name := range names {
		file := filepath.Join(dir, name)
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, nil, 0o644)
		}
		if err == nil {
			err = os.Chtimes(file, at, at)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

// The page of a directory fits a desktop and a phone, is legible in both themes, and works with
// the keyboard; hostile names appear as text.
func TestHTTPBrowserListing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range hostileNames {
		writeTree(t, dir, "lab/"+strings.ReplaceAll(name, "/", "\u2215"))
	}
	writeTree(t, dir, "lab/firmware/a/b", "lab/images/x", "lab/zz")
	if err := os.WriteFile(filepath.Join(dir, "lab", "vmlinuz-6.1.0"), content(7<<20), 0o644); err != nil {
		t.Fatal(err)
	}
	url, _ := serveWeb(t, dir, "--http", "127.0.0.1:0", "--listing")
	b := startBrowser(t)
	for _, width := range []int{1280, 390} {
		for _, theme := range []string{"light", "dark"} {
			t.Run(fmt.Sprint(theme, width), func(t *testing.T) {
				p := b.open(t, url+"/lab/?sort=size&order=desc", width, 844, theme)
				p.picture("listing-" + theme + fmt.Sprint(width))
				p.want("document.querySelectorAll('#list tr').length", len(hostileNames)+5)
				p.want("document.querySelector('[aria-sort=descending]').innerText.trim()", "Size ▼")
				p.press("Tab")
				p.want("document.activeElement.innerText + (document.activeElement.getBoundingClientRect().left >= 0)", "Skip to the listtrue")
				p.want("getComputedStyle(document.activeElement).outlineStyle", "solid")
				p.press("/")
				p.want("document.activeElement.id", "search")
				p.call("Input.insertText", object{"text": "VMLinuz"})
				p.await("document.getElementById('count').innerText === '1 of " + fmt.Sprint(len(hostileNames)+4) + " entries'")
				p.want("[...document.querySelectorAll('#list tr')].filter(r => r.id !== 'up' && r.checkVisibility()).length", 1)
				p.picture("search-" + theme + fmt.Sprint(width))
				p.press("Escape")
				p.want("document.getElementById('search').value + [...document.querySelectorAll('#list tr')].filter(r => r.checkVisibility()).length", len(hostileNames)+5)
				p.wantSound()
			})
		}
	}
}

// A directory of 10,000 files is usable: a typed search gives its result at once.
func TestHTTPBrowserLargeListing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for i := range 10_000 {
		writeTree(t, dir, fmt.Sprintf("switch-%05d.cfg", i))
	}
	url, _ := serveWeb(t, dir, "--http", "127.0.0.1:0", "--listing")
	p := startBrowser(t).open(t, url+"/", 390, 844, "light")
	began := time.Now()
	p.press("/")
	p.call("Input.insertText", object{"text": "-0777"})
	p.await("document.getElementById('count').innerText === '10 of 10000 entries'")
	t.Logf("found after %v", time.Since(began))
	p.want("document.documentElement.scrollWidth > innerWidth", false)
	if len(p.faults) > 0 {
		t.Error(p.faults)
	}
}
