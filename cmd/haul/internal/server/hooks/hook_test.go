package hooks

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/cmd/haul/internal/server/activity"
)

// A hook is the same after writing and parsing, whatever its words are.
func TestParse(t *testing.T) {
	for _, h := range []Hook{
		{On: []activity.Kind{activity.Uploaded, activity.Failed}, Run: []string{"/usr/local/bin/scan", "-q", "", "a b", `it's "so" \n`, "key=x", "$(x)", "new\nline"}},
		{On: []activity.Kind{activity.Login}, Run: []string{"/opt/a program/x"}, Timeout: 90 * time.Second},
		{On: []activity.Kind{activity.Boot}, URL: "https://example.org/hook?a=b&c='d'", Key: "/etc/haul/hook key", Timeout: 5 * time.Second},
	} {
		text := h.String()
		got, err := Parse(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		if !slices.Equal(got.On, h.On) || !slices.Equal(got.Run, h.Run) || got.URL != h.URL || got.Key != h.Key || got.Timeout != h.Timeout {
			t.Errorf("%s is read as %+v", text, got)
		}
	}
}

func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                                   "needs on",
		"on=uploaded":                                        "needs run",
		"run=/bin/true":                                      "needs on",
		"on=upload run=/bin/true":                            "there is no event \"upload\"",
		"on=uploaded run=true":                               "needs its whole path",
		"on=uploaded run=":                                   "missing",
		"on=uploaded /bin/true":                              "run= comes last",
		"on=uploaded on=login run=/bin/true":                 "twice",
		"on=uploaded url=ftp://x/":                           "URL of http or https",
		"on=uploaded url=http://u:p@x/":                      "without a password",
		"on=uploaded url=http://x/ run=/bin/true":            "run or url",
		"on=uploaded key=/k run=/bin/true":                   "the hook has no url",
		"on=uploaded timeout=1h run=/bin/true":               "from 1s to 10m",
		"on=uploaded timeout=30 run=/bin/true":               "with its unit",
		"on=uploaded run='/bin/true":                         "quotation mark",
		"on=uploaded run=/bin/x" + strings.Repeat(" a", 64):  "at most 64 words",
		"on=uploaded run=/bin/" + strings.Repeat("x", 5<<10): "at most 4096 bytes",
	} {
		if h, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q gives %+v and %v, want %q", text, h, err, want)
		}
	}
}

// The name of a hook, which is printed and logged, contains no secrets from a path or a query.
func TestTarget(t *testing.T) {
	h := Hook{On: []activity.Kind{activity.Uploaded}, URL: "https://example.org/in/secret?token=secret"}
	if got := h.Summary(); got != "uploaded: posts to https://example.org" {
		t.Errorf("%q", got)
	}
}

// Any text is either a hook that survives writing and parsing, or a mistake.
func FuzzParse(f *testing.F) {
	f.Add(`on=uploaded,failed timeout=5s run=/bin/x 'a b' \"`)
	f.Add("on=login key=/k url=https://h/?a=b")
	f.Fuzz(func(t *testing.T, text string) {
		h, err := Parse(text)
		if err != nil {
			return
		}
		again, err := Parse(h.String())
		if err != nil || !reflect.DeepEqual(again, h) {
			t.Errorf("%q is %+v, and written as %q %+v, %v", text, h, h.String(), again, err)
		}
	})
}
