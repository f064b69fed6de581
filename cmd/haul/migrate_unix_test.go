//go:build unix

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Each command in the guide's table for users of scp, rclone or lftp does what the table says.
// Commands that change files list the resulting files on the server and on this machine.
func TestGuideComingFrom(t *testing.T) {
	const here = "a=A site/i.html=I site/x.tmp=T 1.log=1"
	const there = "logs/1.log=1 logs/x.tmp=T www/old=O www/i.html=old big=B"
	type result struct{ there, here, out string }
	results := map[string]result{
		"put -rp --links follow site host:www/":   {there: "big=B logs/1.log=1 logs/x.tmp=T www/i.html=old www/old=O www/site/i.html=I www/site/x.tmp=T"},
		"get -p 'host:logs/*.log' in/":            {here: "1.log=1 a=A in/1.log=1 site/i.html=I site/x.tmp=T"},
		"put --limit 1MB a host:":                 {there: "a=A big=B logs/1.log=1 logs/x.tmp=T www/i.html=old www/old=O"},
		"put a host:":                             {there: "a=A big=B logs/1.log=1 logs/x.tmp=T www/i.html=old www/old=O"},
		"mkdir -p host:new":                       {there: "big=B logs/1.log=1 logs/x.tmp=T new/ www/i.html=old www/old=O"},
		"chmod 700 host:logs":                     {},
		"ln -s www host:current":                  {},
		"rm 'host:logs/*.tmp'":                    {there: "big=B logs/1.log=1 www/i.html=old www/old=O"},
		"sync site host:www":                      {there: "big=B logs/1.log=1 logs/x.tmp=T www/i.html=I www/old=O www/x.tmp=T"},
		"sync --no-clobber site host:www":         {there: "big=B logs/1.log=1 logs/x.tmp=T www/i.html=old www/old=O www/x.tmp=T"},
		"sync --update site host:www":             {there: "big=B logs/1.log=1 logs/x.tmp=T www/i.html=I www/old=O www/x.tmp=T"},
		"sync --delete --size-only site host:www": {there: "big=B logs/1.log=1 logs/x.tmp=T www/i.html=I www/x.tmp=T"},
		"sync --delete --max-delete 10 --exclude '*.tmp' site host:www": {there: "big=B logs/1.log=1 logs/x.tmp=T www/i.html=I"},
		"sync -n --delete site host:www":                                {out: "would delete"},
		"put a host:b":                                                  {there: "b=A big=B logs/1.log=1 logs/x.tmp=T www/i.html=old www/old=O"},
		"sum -a md5 -r host:logs":                                       {out: "c4ca4238a0b923820dcc509a6f75849b  logs/1.log\n"},
		"sync -n --delete --checksum site host:www":                     {out: "would copy"},
		"ls -l 'host:logs/**/*.log'":                                    {out: "logs/1.log\n"},
		"ls -R --json host:":                                            {out: `"logs/1.log"`},
		"cat host:logs/1.log":                                           {out: "1"},
		"sync -p --links keep host:www in":                              {here: "1.log=1 a=A in/i.html=old in/old=O site/i.html=I site/x.tmp=T"},
		"sync -p --links keep --delete --exclude '*.html' host:www in":  {here: "1.log=1 a=A in/old=O site/i.html=I site/x.tmp=T"},
		"sync -p --links keep --continue --parallel 4 site host:www":    {there: "big=B logs/1.log=1 logs/x.tmp=T www/i.html=I www/old=O www/x.tmp=T"},
		"put *.log host:in/":                                            {there: "big=B in/1.log=1 logs/1.log=1 logs/x.tmp=T www/i.html=old www/old=O"},
		"get --continue host:big .":                                     {here: "1.log=1 a=A big=B site/i.html=I site/x.tmp=T"},
	}
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(guide), "### Coming from scp, rclone or lftp\n")
	section, _, _ = strings.Cut(section, "\n## ")
	rows := regexp.MustCompile("(?m)^\\| `.*` \\| `haul (.*)` \\|$").FindAllStringSubmatch(section, -1)
	if len(rows) != len(results) {
		t.Errorf("the table has %d commands, and this test %d", len(rows), len(results))
	}
	for _, row := range rows {
		t.Run(row[1], func(t *testing.T) {
			want, ok := results[row[1]]
			if !ok {
				t.Fatal("this test has no result for it")
			}
			l, dir := startLab(t, nil), t.TempDir()
			writeTree(t, l.dir, there)
			writeTree(t, dir, here)
			t.Chdir(dir)
			out := l.must(splitShell(strings.ReplaceAll(row[1], "host:", "lab:"))...)
			if !strings.Contains(out, want.out) {
				t.Errorf("%q, want %q", out, want.out)
			}
			for where, want := range map[string]string{l.dir: want.there, dir: want.here} {
				if got := treeOf(t, where); want != "" && got != want {
					t.Errorf("%s has %s, want %s", where, got, want)
				}
			}
			if row[1] == "ln -s www host:current" {
				if to, err := os.Readlink(filepath.Join(l.dir, "current")); to != "www" {
					t.Errorf("the link leads to %q, %v", to, err)
				}
			}
			if info, err := os.Stat(filepath.Join(l.dir, "logs")); row[1] == "chmod 700 host:logs" && (err != nil || fmt.Sprint(info.Mode().Perm()) != "-rwx------") {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
}

// The guide's way to choose files by age lets find write the rules, and works for any names.
func TestGuideFilterByAge(t *testing.T) {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guide.md"))
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)\n  ```\n  (\\{ find [^\n]*)\n  haul (sync [^\n]*)\n  ```").FindStringSubmatch(string(guide))
	if block == nil {
		t.Fatal("the guide has no such commands")
	}
	l, dir := startLab(t, nil), t.TempDir()
	t.Chdir(dir)
	writeTree(t, dir, "site/old=1 site/d/old=2")
	for _, name := range []string{"new", "d/[x]{y}*?", `back\slash`, "d/#"} {
		writeFile(t, filepath.Join(dir, "site", name), "N")
	}
	if out, err := exec.Command("sh", "-c", block[1]).CombinedOutput(); err != nil {
		t.Skipf("find of this system has no -printf: %v, %s", err, out)
	}
	l.must(splitShell(strings.ReplaceAll(block[2], "host:", "lab:"))...)
	if got, want := treeOf(t, filepath.Join(l.dir, "www")), `back\slash=N d/#=N d/[x]{y}*?=N new=N`; got != want {
		t.Errorf("the server has %s, want %s", got, want)
	}
}
