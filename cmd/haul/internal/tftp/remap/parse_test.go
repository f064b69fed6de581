package remap_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/haul-project/haul/cmd/haul/internal/tftp/remap"
)

func TestParseFaults(t *testing.T) {
	tests := []struct{ file, want string }{
		{"q a b", `line 1: operation "q": 'q' is none of the letters r g i e E s a j G P 4 6 ~, in "q a b"`},
		{"\n# x\n  r\n", `line 3: the regex is missing`},
		{"r # comment", "the regex is missing"},
		{"r~ a b", "r and ~ cannot be combined"},
		{"rj a b", "r and j cannot be combined"},
		{"eE a", "e and E cannot be combined"},
		{"aE a", "a and E cannot be combined"},
		{"GP a", "G and P cannot be combined"},
		{"r46 a", "4 and 6 cannot be combined"},
		{"j a", "j needs the name of a label"},
		{"j a b\n:c", "there is no label :b"},
		{":", "the label has no name"},
		{"r \x00 x", "holds a NUL"},
		{"r \xff x", "not UTF-8"},
		{`r (a)\1 x`, `back references such as \1 are not supported`},
		{`r \<a x`, `\< is not supported; \b matches`},
		{`r a\> x`, `\> is not supported`},
		{`r \d+ x`, `\d has no meaning in a POSIX regex; write d for the character, or a class such as [0-9]`},
		{`r a\`, `a \ at the end`},
		{"r * x", "nothing to repeat"},
		{"r (|*) x", "nothing to repeat"},
		{"r (?:a) x", "nothing to repeat"},
		{"r ^* x", "nothing to repeat"},
		{"r a{,x} x", "{,x} is not {n}, {n,}, {,m} or {n,m}"},
		{"r a{} x", "{} is not"},
		{"r a{-1} x", "{-1} is not"},
		{"r a{99999999999999999999} x", "is not {n}"},
		{"r a{1001} x", "repeats more than 1000 times"},
		{"r a{ x", "{ without }"},
		{"r a***** x", "more than 4 repetitions in a row"},
		{"r a{100}{100} x", "invalid repeat count"},
		{"r (abc){1000} x", "too large"},
		{"r (a x", "( without )"},
		{"r [a x", "[ without ]"},
		{"r [[:alpha: x", "[ without ]"},
		{"r [[:letter:]] x", "[:letter:] is none of the classes alnum"},
		{"r [[::]] x", "[::] is none"},
		{"r [[.space.]] x", "[.space.] is not supported"},
		{"r [[.. x", "[ without ]"},
		{"r [z-a] x", "the range z-a in [ ] runs backwards"},
		{"r [a-z-9] x", "must come first or last"},
		{"r [[:alpha:]-z] x", "must come first or last"},
		{"r [a-[:alpha:]] x", "must come first or last"},
		{"r " + strings.Repeat("(", 1500) + strings.Repeat("a)*", 1500) + " x", "expression nests too deeply"},
		{strings.Repeat("x", 17<<10), "more than the limit of 16384 for a line"},
		{strings.Repeat("r a b\n", remap.MaxRules+1), "line 4097: more than 4096 rules"},
		{strings.Repeat("r a{1000} x\n", 300), "all regexes together are too large"},
		{strings.Repeat("#\n", remap.MaxFile), "more than the limit of 1048576"},
	}
	for _, test := range tests {
		_, err := remap.Parse(test.file)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%.40q: %v; want %q", test.file, err, test.want)
		}
	}
}

// Every faulty line is reported, up to a maximum number.
func TestParseReportsAllFaults(t *testing.T) {
	_, err := remap.Parse("x\nr a b\ny z\nj a b\n")
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "line 3") || !strings.Contains(lines[2], `line 4: there is no label :b, in "j a b"`) {
		t.Error(err)
	}
	if e, ok := errors.AsType[*remap.SyntaxError](err); !ok || e.Line != 1 || e.Text != "x" {
		t.Errorf("%v", e)
	}
	_, err = remap.Parse(strings.Repeat("x\n", 1000))
	if n := strings.Count(err.Error(), "\n") + 1; n != 20 {
		t.Errorf("%d lines of faults", n)
	}
}

// Letters that have no effect together with others are accepted, as in tftp-hpa 5.2.
func TestOperationsWithoutEffect(t *testing.T) {
	for _, file := range []string{"ra ^ x", "aers ^ x", "ag ^ x"} {
		_, err := parse(t, file).Apply(remap.Query{Name: "n"})
		if a, ok := errors.AsType[*remap.Abort](err); !ok || a.Message != "x" {
			t.Errorf("%s: %v", file, err)
		}
	}
	if name, err := parse(t, "res a b\nr b c").Apply(remap.Query{Name: "a"}); name != "b" || err != nil {
		t.Error(name, err)
	}
}

func FuzzRules(f *testing.F) {
	for _, s := range []string{pxelinux, windows, perClient, guarded, fallback, jumps, upper} {
		f.Add(s, `\Boot\x64\File`, true)
		f.Add(s, "pxelinux.cfg/default", false)
	}
	for _, test := range asTftpdHPA {
		f.Add(test.file, test.name, test.write)
	}
	for _, file := range refusedByTftpdHPA {
		f.Add(file, "a", false)
	}
	f.Fuzz(func(t *testing.T, file, name string, write bool) {
		rules, err := remap.Parse(file)
		if (rules == nil) == (err == nil) {
			t.Fatal(rules, err)
		}
		if err != nil {
			return
		}
		steps := 0
		q := remap.Query{Name: name, Write: write, Addr: "192.0.2.1", Hex: "C0000201", Exists: func(s string) bool { return len(s)%2 == 0 }}
		got, err := rules.Trace(q, func(s remap.Step) {
			steps++
			if s.Line < 1 || len(s.Name) > remap.MaxName {
				t.Errorf("%+v", s)
			}
		})
		if steps > remap.MaxSteps || len(got) > remap.MaxName || err != nil && got != "" {
			t.Errorf("%d steps, %q, %v", steps, got, err)
		}
		if _, abort := errors.AsType[*remap.Abort](err); err != nil && !abort && !errors.Is(err, remap.ErrLimit) && !errors.Is(err, remap.ErrLabel) {
			t.Error(err)
		}
	})
}
