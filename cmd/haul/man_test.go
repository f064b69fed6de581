package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/haul-project/haul/cmd/haul/internal/cli/commandline"
)

// writtenManual returns the pages that haul man writes, by name.
func writtenManual(t *testing.T) (dir string, pages map[string]string) {
	t.Helper()
	dir, pages = filepath.Join(t.TempDir(), "new", "man"), map[string]string{}
	for range 2 { // the second run replaces the pages
		if code, out, errs := haul(t, "man", dir); code != 0 || out != "" || errs != "" {
			t.Fatalf("exit code %d, %s%s", code, out, errs)
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if info, err := os.Stat(name); err != nil || info.Mode().Perm()&0o444 != 0o444 {
			t.Errorf("not everybody may read %s: %v, %v", name, info.Mode(), err)
		}
		pages[filepath.Base(name)] = string(b)
	}
	return dir, pages
}

// seenPage matches references to pages.
var seenPage = regexp.MustCompile(`(haul(?:\\-[a-z]+)*)\(([17])\)`)

// Each command and topic has a page with all flags, and all references lead to existing pages. The
// pages depend on the commands alone, not on a user's directories.
func TestMan(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1700000000")
	dir, pages := writtenManual(t)
	want := map[string]bool{"haul-help.1": true}
	for _, cmd := range append(allCommands(newRoot()), newRoot()) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		if want[name] = true; !commandline.IsListed(cmd) && cmd.HasParent() {
			delete(want, name)
			continue
		}
		page := pages[name]
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if !strings.Contains(page, `\-\-`+strings.ReplaceAll(f.Name, "-", `\-`)) {
				t.Errorf("%s has no --%s", name, f.Name)
			}
		})
	}
	for _, topic := range program.Topics {
		want["haul-"+strings.ReplaceAll(topic.Name, " ", "-")+".7"] = true
	}
	for name, page := range pages {
		if !want[name] {
			t.Errorf("%s is for no command or topic", name)
		}
		delete(want, name)
		if head, _, _ := strings.Cut(page, "\n"); !strings.Contains(head, `"2023\-11\-14" "haul `) {
			t.Errorf("%s begins with %s", name, head)
		}
		for _, m := range seenPage.FindAllStringSubmatch(page, -1) {
			if other := strings.ReplaceAll(m[1], `\-`, "-") + "." + m[2]; pages[other] == "" {
				t.Errorf("%s names %s, which is not there", name, other)
			}
		}
	}
	for name := range want {
		t.Errorf("there is no %s", name)
	}
	checkRoff(t, dir)

	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	t.Setenv("COLUMNS", "40")
	_, again := writtenManual(t)
	for name, page := range again {
		if page != pages[name] {
			t.Errorf("%s differs for another user", name)
		}
	}
}

// checkRoff formats all pages with groff, if it is installed, with all warnings.
func checkRoff(t *testing.T, dir string) {
	t.Helper()
	groff, err := exec.LookPath("groff")
	if err != nil {
		t.Log("groff is not there to check the pages")
		return
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	out, err := exec.CommandContext(t.Context(), groff, slices.Concat([]string{"-man", "-Tutf8", "-ww", "-z"}, files)...).CombinedOutput()
	if err != nil || len(out) > 0 {
		t.Errorf("groff: %v\n%s", err, out)
	}
}

// Without SOURCE_DATE_EPOCH a page has no date. An invalid date is refused, and so is a directory
// that cannot be written; nothing is left there.
func TestManFails(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "")
	if _, pages := writtenManual(t); !strings.HasPrefix(pages["haul.1"], `.TH "HAUL" "1" "" "haul `) {
		t.Errorf("haul.1 begins with %.60q", pages["haul.1"])
	}
	file, taken := filepath.Join(t.TempDir(), "file"), t.TempDir()
	writeFile(t, file, "")
	if err := os.MkdirAll(filepath.Join(taken, "man1", "haul.1", "x"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		epoch, dir string
		code       int
		says       string
	}{
		{"yesterday", taken, exitUsage, `SOURCE_DATE_EPOCH "yesterday": it is seconds since 1970`},
		{"-1", taken, exitUsage, "seconds since 1970"},
		{"99999999999999999999", taken, exitUsage, "seconds since 1970"},
		{"", file, exitLocal, "write the page haul.1: "},
		{"", taken, exitLocal, "write the page haul.1: "},
	} {
		t.Setenv("SOURCE_DATE_EPOCH", test.epoch)
		if code, out, errs := haul(t, "man", test.dir); code != test.code || out != "" || !strings.Contains(errs, test.says) {
			t.Errorf("%q, %s: exit code %d, %s%s; want %d and %q", test.epoch, test.dir, code, out, errs, test.code, test.says)
		}
	}
	if left, err := filepath.Glob(filepath.Join(taken, "*", "*")); len(left) != 1 || err != nil {
		t.Errorf("left behind: %q, %v", left, err)
	}
}
