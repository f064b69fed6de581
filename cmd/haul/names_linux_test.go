package main

import (
	"errors"
	"maps"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
)

// Names are bytes: files and directories whose names are not UTF-8 can be listed, fetched, sent,
// renamed and removed over SFTP and HTTP, and no message contains the raw bytes.
func TestNamesThatAreNotText(t *testing.T) {
	t.Parallel() // it waits for children
	files := map[string]string{"caf\xe9": "latin", "d\xff/\xfe": "inside", "d\xff/\xe6\x97/x": "cut", "plain": "plain"}
	l := startLab(t, files)
	web := startHTTP(t, servedDir(t, files), "--listing", "--upload", "overwrite")
	for protocol, server := range map[string]struct {
		at   string // the prefix of names on the server
		name func(string) string
		args func(...string) []string
	}{
		"sftp": {"lab:", func(s string) string { return s }, l.args},
		"http": {web.at + "/", func(s string) string { return (&url.URL{Path: s}).EscapedPath() }, func(args ...string) []string { return args }},
	} {
		t.Run(protocol, func(t *testing.T) {
			run := func(args ...string) (stdout string) {
				t.Helper()
				code, stdout, msg := haul(t, server.args(args...)...)
				if code != 0 || isUntamed(msg) {
					t.Errorf("haul %q: exit code %d, says %q", args, code, msg)
				}
				return stdout
			}
			here := t.TempDir()
			if got := run("ls", server.at); got != "caf\xe9\nd\xff\nplain\n" {
				t.Errorf("ls prints %q", got)
			}
			if got := run("ls", "-R", server.at+server.name("d\xff")); !strings.Contains(got, "\nx\n") {
				t.Errorf("ls -R prints %q", got)
			}
			run("get", "-rv", server.at, filepath.Join(here, "all"))
			wantTree(t, filepath.Join(here, "all"), files)
			run("get", server.at+server.name("caf\xe9"), filepath.Join(here, "one\xff"))
			run("get", server.at+"caf*", here)
			wantFile(t, filepath.Join(here, "one\xff"), "latin")
			wantFile(t, filepath.Join(here, "caf\xe9"), "latin")
			run("put", "-rv", filepath.Join(here, "all", "d\xff"), server.at+"copy/")
			run("put", filepath.Join(here, "one\xff"), server.at+"copy/")
			run("put", "--continue", filepath.Join(here, "one\xff"), server.at+server.name("new\xfd"))
			again := filepath.Join(here, "again")
			run("get", "-r", server.at+"copy/.", again)
			wantTree(t, again, map[string]string{"d\xff/\xfe": "inside", "d\xff/\xe6\x97/x": "cut", "one\xff": "latin"})
			run("ls", "-l", server.at+server.name("new\xfd"))
			code, _, msg := haul(t, server.args("get", server.at+server.name("no\xff"), here)...)
			var printed strings.Builder
			printError(&printed, errors.New(msg))
			if code != exitNotFound || isUntamed(printed.String()) {
				t.Errorf("a name that is not there: exit code %d, says %q", code, printed.String())
			}
			if got := messageOf(t, server.args("stat", server.at+server.name("x\ny"))...); strings.Count(got, "\n") != 1 {
				t.Errorf("a name of two lines: says %q", got)
			}
		})
	}
	l.must("mv", "lab:caf\xe9", "lab:d\xff/caf\xe8")
	l.must("rm", "-r", "lab:copy/d\xff")
	l.must("rm", "lab:copy/one*", "lab:new\xfd")
	l.must("stat", "lab:d\xff/caf\xe8")
	want := maps.Clone(files)
	delete(want, "caf\xe9")
	want["d\xff/caf\xe8"] = "latin"
	wantTree(t, l.dir, want)

	other := startWeb(t, files) // haul's server removes nothing for users who are not logged in
	other.must("rm", other.URL+"/caf%E9")
	delete(files, "caf\xe9")
	wantTree(t, other.dir, files)
}
