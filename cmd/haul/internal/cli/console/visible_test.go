package console

import "testing"

func TestVisible(t *testing.T) {
	for s, want := range map[string]string{
		"plain":      "plain",
		"grün 日本":    "grün 日本",
		"":           "",
		`a\b`:        `a\b`,
		"a\\\x1b[m":  `a\\\x1b[m`,
		"a\nb\tc":    `a\nb\tc`,
		"\x7f":       `\x7f`,
		"\u009b":     `\u009b`,
		"\u202e":     `\u202e`,
		"\xff":       `\xff`,
		"\u00a0":     `\u00a0`, // a no-break space
		"😀":          "😀",
		"\U000e0041": `\U000e0041`,
		"\ufffd":     "\ufffd",
	} {
		if got := Visible(s); got != want {
			t.Errorf("Visible(%q) is %q, want %q", s, got, want)
		}
	}
}

func FuzzVisible(f *testing.F) {
	for _, s := range []string{"a\x1b[2Jb", "bell\a", "two\nlines", "turn\u202eed", "c1\u009b31m", "bad\xff\xfe", `back\slash`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Visible(s)
		for _, r := range got {
			if hidden(r) {
				t.Fatalf("Visible(%q) is %q", s, got)
			}
		}
	})
}
