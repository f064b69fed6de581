//go:build unix

package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// filterRules are rules on which haul and rclone agree. They leave out names with line ends: in
// rclone, ** does not match these.
var filterRules = []string{
	"",
	"- *.o",
	"- a",
	"- a/",
	"- /a/",
	"- a/**",
	"- a/*",
	"- /a/*",
	"- /a/**/b",
	"- **/b",
	"- **",
	"- *",
	"- /*",
	"+ *.c\n- **",
	"+ *.c\n- *",
	"+ /a/**\n- **",
	"+ /a/b/*.c\n- **",
	"+ /a*/b/*.c\n- **",
	"+ /{a,d}/*.c\n- **",
	"+ d/keep.c\n- d/",
	"- d/\n+ d/keep.c",
	"+ d/\n- **",
	"+ d/\n- *.o",
	"- [a-c]x*\n- [^x]y\n- ?z.o",
	"- {x.c,y[12].o,*z*}",
	`- \[x\]` + "\n" + `- a\*b`,
	"# comment\n; comment\n\n  - a/  \n!\n- *.c",
	"- .*/\n- .*",
	"+ /a/**/*.c\n+ /d/k*\n- /d/**\n- /a/**",
	"- a*/**/x.*\n+ **/b/**\n- *.c",
}

// TestFiltersAsRclone compares rclone's and haul's lists of a directory after filtering.
func TestFiltersAsRclone(t *testing.T) {
	p := find(t, "rclone", "rclone")
	dir := realDir(t)
	for _, in := range []string{"", "a/", "a/b/", "a/b/a/", "ax/b/", "d/", "d/a/", "d/e/b/", ".hidden/"} {
		if err := os.MkdirAll(filepath.Join(dir, in), 0o755); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"x.c", "x.o", "cx.c", "ay", "y1.o", "az.o", "keep.c", ".dot", "[x]", "a*b", "é", "B.C"} {
			if err := os.WriteFile(filepath.Join(dir, in, name), nil, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	l := serveSFTP(t, dir)
	config := l.sshConfig(t)
	for i, rules := range filterRules {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "rules")
			if err := os.WriteFile(file, []byte(rules+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			theirs := strings.Split(mustRun(t, p, "", "lsf", "-R", "--files-only", "--config", os.DevNull, "--filter-from", file, dir), "\n")
			var ours []string
			for line := range strings.Lines(mustRun(t, haul(t), "", "get", "-rnq", "--batch", "-F", config, "--filter-from", file, "server:.", "TO")) {
				if what, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\t"); what == "would copy" {
					_, name, _ := strings.Cut(rest, "\tTO/")
					ours = append(ours, name)
				}
			}
			theirs = slices.DeleteFunc(theirs, func(s string) bool { return s == "" })
			slices.Sort(ours)
			slices.Sort(theirs)
			if !slices.Equal(ours, theirs) {
				t.Errorf("by the rules %q haul takes %q, and rclone %q", rules, ours, theirs)
			}
		})
	}
}
