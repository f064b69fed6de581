//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Names that begin with a dot are served to nobody without a login, unless --hidden
// says so, and none are taken; .well-known is no secret.
func TestServeHidden(t *testing.T) {
	t.Parallel() // it waits most of the time
	files := map[string]string{"a": "a", ".env": "secret", ".git/config": "secret", "sub/.key": "secret", ".well-known/acme/t": "token"}
	for _, flags := range [][]string{nil, {"--hidden"}, {"--fold-case"}, {"--fold-case", "--hidden"}} {
		shown := strings.Contains(strings.Join(flags, " "), "--hidden")
		dir := servedDir(t, files)
		s := startHTTP(t, append([]string{dir, "--tftp", "127.0.0.1:0", "--listing", "--upload", "create"}, flags...)...)
		web, tftp := s.at, "tftp://"+wordAfter(s.await(" on tftp://", "\n"), " on tftp://")
		for name, want := range files {
			open := shown || name == "a" || strings.HasPrefix(name, ".well-known/")
			for _, url := range []string{web, tftp} {
				code, out, msg := haul(t, "get", "-q", url+"/"+name, "-")
				if open && (code != 0 || out != want) || !open && code != exitNotFound {
					t.Errorf("%v: get %s/%s: exit code %d, %q, %s", flags, url, name, code, out, msg)
				}
			}
		}
		_, list := s.ask("GET /?json", "")
		_, below := s.ask("GET /sub/?json", "")
		list += below
		for _, name := range []string{".env", ".git", ".key"} {
			if strings.Contains(list, name) != shown {
				t.Errorf("%v: the listing has %s: %v\n%s", flags, name, !shown, list)
			}
		}
		if !strings.Contains(list, ".well-known") {
			t.Errorf("%v: the listing lacks .well-known: %s", flags, list)
		}
		local := filepath.Join(t.TempDir(), "f")
		writeFile(t, local, "new")
		for _, url := range []string{web + "/.new1", tftp + "/.new2", web + "/.new3/f"} {
			want := exitRefused
			if shown {
				want = 0
			}
			if code, _, msg := haul(t, "put", "-q", local, url); code != want {
				t.Errorf("%v: put %s: exit code %d, %s", flags, url, code, msg)
			}
		}
		for _, name := range []string{".new1", ".new2", ".new3"} {
			if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != shown {
				t.Errorf("%v: %s: %v", flags, name, err)
			}
		}
	}
}
