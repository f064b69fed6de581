package treecopy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/haul-project/haul/store/treecopy"
)

// The verdicts on names, for sets of rules. The verdicts on files are the same as rclone's: package
// interop compares a list of such rules with it.
func TestFilter(t *testing.T) {
	tests := []struct{ rules, take, enter, skip string }{
		{"", "a d/", "", ""},
		{"- *.o", "a.c d/a.c o d.o/", "", "a.o d/b.o .o"},
		{"- a", "a/ a/x d/a/ b", "", "a d/a"},
		{"- a/", "a d/a b", "", "a/ a/x a/x/y d/a/ d/a/x"},
		{"- /a/", "a d/a d/a/ d/a/x", "", "a/ a/x a/x/"},
		{"- a/**", "a d/a", "", "a/ a/x d/a/x d/a/"},
		{"- /a", "a/ b/a a/a", "", "a"},
		{"- a/*", "a a/ a/b/c b", "", "a/b d/a/b"},
		{"- /a/**/b", "a/b b a/c a/ a/x/", "", "a/x/b a/x/y/b"},
		{"- **/b", "b", "", "a/b a/c/b"},
		{"- **", "", "", "a a/ a/b x\ny x\ny/a\nb"},
		{"- *", "", "", "a a/ a/b"},
		{"- /*", "a/ a/b a/b/", "", "a"},
		{"+ *.c\n- **", "a.c d/a.c", "d/ a.c/", "a.o d/a.o"},
		{"+ /p/**\n- **", "p/ p/x p/x/", "", "p m m/ m/p m/p/"},
		{"+ /a/b/*.c\n- **", "a/b/x.c", "a/ a/b/", "a/x.c x.c b/ a/c/ a/b/c/ a/b/x.o"},
		{"+ /a*/b/*.c\n- **", "ax/b/x.c", "ax/ a/b/", "b/ a/bx/"},
		{"+ /{a/b,c}/*.c\n- **", "a/b/x.c c/x.c", "a/ c/ d/", "x.c a/x.c"},
		{"+ d/\n- **", "d/ x/d/", "", "d x/ d/a"},
		{"+ d/keep\n- d/\n", "d/keep x x/d/keep", "d/ x/d/", "d/x"},
		{"- d/\n+ d/keep", "x", "", "d/keep d/ d/x"},
		{"- [a-c]x\n- [^x]y\n- {p,q{r,s}}\n- ?z", "dx xy qq z az/", "", "ax cx ay p qs az"},
		{`- a\*b` + "\n" + `- \[x` + "\n- [*]", "axb x", "", "a*b [x *"},
		{"# c\n; c\n\n  - a  \n!\n- b\r\n", "a", "", "b"},
		{"- a//b", "", "", "a/b"},
	}
	for _, test := range tests {
		r := new(treecopy.Filter)
		if err := r.AddText(test.rules); err != nil {
			t.Errorf("%q: %v", test.rules, err)
			continue
		}
		for want, names := range []string{treecopy.Included: test.take, treecopy.Entered: test.enter, treecopy.Excluded: test.skip} {
			for name := range strings.SplitSeq(names, " ") {
				if name == "" {
					continue
				}
				name, dir := strings.CutSuffix(name, "/")
				if got := r.Match(name, dir); got != treecopy.Verdict(want) {
					t.Errorf("%q: %q, directory %v: verdict %v, want %v", test.rules, name, dir, got, treecopy.Verdict(want))
				}
			}
		}
	}
}

// With IncludeOnly, names that no rule includes are excluded.
func TestIncludeOnly(t *testing.T) {
	var r treecopy.Filter
	if err := r.Add(true, "*.jpg"); err != nil || r.Empty() {
		t.Fatal(err)
	}
	r.IncludeOnly()
	got := []treecopy.Verdict{r.Match("a.jpg", false), r.Match("d", true), r.Match("a.txt", false), (*treecopy.Filter)(nil).Match("a", false)}
	for i, want := range []treecopy.Verdict{treecopy.Included, treecopy.Entered, treecopy.Excluded, treecopy.Included} {
		if got[i] != want {
			t.Errorf("%d: verdict %v, want %v", i, got[i], want)
		}
	}
}

// A line that is not a rule, or exceeds a bound, causes an error that names the line.
func TestRefused(t *testing.T) {
	for _, rules := range []string{
		"- ", "- /", "-a", "* x", "- [a", "- {a", "- a}", "- a]", `- a\`, "- a**b", "- ***", "- {a,**}", "- {{a.*}}",
		"- " + strings.Repeat("a", treecopy.MaxPattern+1), "- " + strings.Repeat("{a,b}", treecopy.MaxBraces+1),
		strings.Repeat("- a\n", treecopy.MaxRules+1),
	} {
		if err := new(treecopy.Filter).AddText(rules); err == nil || !strings.Contains(err.Error(), "line ") || len(err.Error()) > 400 {
			t.Errorf("%.20q: %v", rules, err)
		}
	}
}

// No rules crash or hang on any name, and everything in a skipped directory is skipped.
func FuzzFilter(f *testing.F) {
	f.Add("+ *.c\n- /a/**/b/", "a/x/b/y.c")
	f.Add("- {a,b*}/[^x]?\n+ d/\n- **", "b\n/\xff\xfe/d")
	f.Fuzz(func(t *testing.T, rules, name string) {
		r := new(treecopy.Filter)
		if r.AddText(rules) != nil {
			return
		}
		name = strings.Trim(name, "/")
		if strings.Contains(name, "//") || name == "" {
			return
		}
		verdict := r.Match(name, false)
		for i, c := range name {
			if c == '/' && r.Match(name[:i], true) == treecopy.Excluded && verdict != treecopy.Excluded {
				t.Fatal(errors.New("a file is taken in a directory that is skipped"))
			}
		}
	})
}
