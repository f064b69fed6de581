package console

import (
	"bytes"
	"encoding/json"
	"testing"
)

func TestPlainWriter(t *testing.T) {
	for in, want := range map[string]string{
		"":                     "",
		"a line\n":             "a line\n",
		"grün und 日本\n":        "grün und 日本\n",
		"\x7f":                 `\u007f`,
		"a\u009b31m\u202eb\n":  `a\u009b31m\u202eb` + "\n",
		"\x1b[2J":              `\u001b[2J`,
		"not \xff text":        `not \ufffd text`,
		"tag \U000e0041\n":     `tag \udb40\udc41` + "\n",
		"\U0001f600 is fine\n": "\U0001f600 is fine\n",
	} {
		var out bytes.Buffer
		w := NewPlainWriter(&out)
		if n, err := w.Write([]byte(in)); n != len(in) || err != nil || out.String() != want {
			t.Errorf("%q became %q, want %q (%d, %v)", in, out.String(), want, n, err)
		}
	}
	// A JSON decoder returns the same characters.
	var out bytes.Buffer
	const name = "a\u009b\u202e\U000e0041b"
	text, err := json.Marshal(name)
	if err != nil {
		t.Fatal(err)
	}
	var back string
	w := NewPlainWriter(&out)
	if _, err := w.Write(text); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out.Bytes(), &back); err != nil || back != name {
		t.Errorf("%s became %q (%v)", out.Bytes(), back, err)
	}
}
