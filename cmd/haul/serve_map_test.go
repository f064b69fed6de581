package main

import (
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/haul-project/haul/internal/golden"
)

// mapRules contain every feature: classes, captures, a jump, conditions on the client, on the
// operation and on what exists, and a refusal.
const mapRules = `# A network that boots old and new.
rg	\\			/
r	^/			
rP	^secret		denied
a	^secret			Not\ this\ one
rG6	^six$		six-by-\i
r4	^four$		four-by-\x
rE	^conf$		by-address/\x
r	^conf$		default
rg	([A-Z])		\L\1
`

// The output of "haul map test" is for people. The file contains it.
func TestMapTest(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "rules")
	writeFile(t, rules, mapRules)
	var all strings.Builder
	for _, args := range [][]string{
		{},
		{`\Boot\BCD`, "kernel"},
		{"secret"},
		{"kernel", "secret", "/other"},
		{"secret", "--write"},
		{"six", "four", "--from", "2001:db8::7"},
		{"six", "four", "--from", "192.0.2.7"},
		{"six", "--from", "::ffff:192.0.2.7"},
		{"conf"},
		{"conf", "--exists", "by-address/C0000201"},
		{"conf", "--exists", "other,/by-address/C0000201"},
		{"a\nb\x1b[2J\xff"},
		{""},
	} {
		code, out, errs := haul(t, append([]string{"map", "test", rules}, args...)...)
		all.WriteString("$ haul map test rules " + strings.Join(quoteAll(args), " ") + "\n")
		all.WriteString(strings.ReplaceAll(out, rules, "rules"))
		if code != 0 {
			all.WriteString("haul: " + errs + "\nexit code " + string(rune('0'+code)) + "\n")
		}
		all.WriteString("\n")
	}
	golden.Compare(t, "map-test.txt", all.String())
}

// quoteAll quotes arguments that are not flags.
func quoteAll(args []string) (all []string) {
	for _, a := range args {
		if !strings.HasPrefix(a, "--") {
			a = strconv.Quote(a)
		}
		all = append(all, a)
	}
	return all
}

func TestMapTestErrors(t *testing.T) {
	dir := t.TempDir()
	bad, good := filepath.Join(dir, "bad"), filepath.Join(dir, "good")
	writeFile(t, bad, "r ^a$ b\nr (a b\n\nq ^x$ y\n")
	writeFile(t, good, "r ^a$ b\n")
	for _, test := range []struct {
		args []string
		code int
		says []string
	}{
		{[]string{bad}, exitUsage, []string{bad, "line 2: ", "(a", "line 4: ", "none of the letters"}},
		{[]string{bad, "a"}, exitUsage, []string{"line 2: "}},
		{[]string{filepath.Join(dir, "none")}, exitLocal, []string{"none: no such file"}},
		{[]string{dir}, exitLocal, []string{"not a regular file"}},
		{nil, exitUsage, []string{" is missing"}},
		{[]string{good, "a", "--from", "host"}, exitUsage, []string{"--from host", "192.0.2.7"}},
		{[]string{good, "a", "--from", ""}, exitUsage, []string{"--from", "192.0.2.7"}},
		{[]string{good, "a", "--write=x"}, exitUsage, []string{"--write"}},
	} {
		code, out, errs := haul(t, append([]string{"map", "test"}, test.args...)...)
		for _, want := range test.says {
			if code != test.code || out != "" || !strings.Contains(errs, want) {
				t.Errorf("%q: exit code %d, %q, %q; want %d, and %q", test.args, code, out, errs, test.code, want)
			}
		}
	}
}
