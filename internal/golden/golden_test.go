package golden

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// A recorder is a testing.TB that records what is reported to it.
type recorder struct {
	testing.TB
	reported string
}

func (r *recorder) Errorf(format string, args ...any) { r.reported += fmt.Sprintf(format, args...) }

// Compare reports the first line that differs. That may be a line that only one side has.
func TestCompare(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("testdata", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile("testdata/f", []byte("one\r\ntwo\r\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for got, want := range map[string]string{
		"one\ntwo\n":        "",
		"one\n2\n":          ":2 differs\ngot:  2\nwant: two\n",
		"one\n":             ":2 differs\ngot:  \nwant: two\n",
		"one\ntwo\nthree\n": ":3 differs\ngot:  three\nwant: \n",
		"one\ntwo":          ":3 differs\ngot:  (the end)\nwant: \n",
	} {
		r := &recorder{TB: t}
		Compare(r, "f", got)
		if (want == "") != (r.reported == "") || !strings.Contains(r.reported, want) {
			t.Errorf("%q: got %q, want %q", got, r.reported, want)
		}
	}
}
