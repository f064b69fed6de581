package manpage

import (
	"strings"
	"testing"
)

// Each form of help text becomes the right request for the formatter.
func TestText(t *testing.T) {
	for text, want := range map[string]string{
		"Two lines of\na paragraph.\n\nAnother.":                                                            ".PP\nTwo lines of a paragraph.\n.PP\nAnother.\n",
		"Codes:\n  0  success\n  2  a mistake on the\n     command line":                                    ".PP\nCodes:\n.TP\n\\fB0\\fR\nsuccess\n.TP\n\\fB2\\fR\na mistake on the command line\n",
		"  K, KiB   1,024     KB   1,000\n  M   1     MB   2":                                               ".PP\n.nf\n  K, KiB   1,024     KB   1,000\n  M   1     MB   2\n.fi\n",
		"  dirs = [\"a-b\"]\n  user = 'haul'":                                                               ".PP\n.nf\n  dirs = [\\(dqa\\-b\\(dq]\n  user = \\(aqhaul\\(aq\n.fi\n",
		"  All of these lines are one paragraph, which was wrapped here:\n  it continues.":                  ".IP \"\" 2\nAll of these lines are one paragraph, which was wrapped here: it continues.\n",
		"  --root CLIENT=DIR gives some clients another directory. CLIENT is\n    a name\n  --map rewrites": ".IP \"\" 2\n\\-\\-root CLIENT=DIR gives some clients another directory. CLIENT is a name\n.IP \"\" 2\n\\-\\-map rewrites\n",
		"  A file that is complete is copied again, and there is no end,\n    - x\n    - y":                 ".IP \"\" 2\nA file that is complete is copied again, and there is no end,\n.IP \"\" 2\n\\- x\n.IP \"\" 2\n\\- y\n",
		"": "",
	} {
		p := &Page{}
		p.Text(text)
		if got := p.String(); got != want {
			t.Errorf("%q\n got %q\nwant %q", text, got, want)
		}
	}
}

// No text can begin a request or an escape sequence.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{".so /etc/passwd", "'br", `\fB\n(.$ \X'x'`, "a\n.br", "\x00\x7f\xff", "ö…—", "--x", `"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := escape(s)
		rest := got
		for _, known := range []string{`\(rs`, `\-`, `\(dq`, `\(aq`, `\(ga`, `\(ha`, `\(ti`, `\&`, `\[u`} {
			rest = strings.ReplaceAll(rest, known, "")
		}
		if strings.ContainsAny(got, "\n\"'") || strings.Contains(rest, `\`) || strings.HasPrefix(got, ".") {
			t.Errorf("%q became %q", s, got)
		}
	})
}
