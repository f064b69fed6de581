package report

import (
	"encoding/xml"
	"errors"
	"io"
	"regexp"
	"strings"
	"testing"
)

func pageOf(t *testing.T) string {
	t.Helper()
	page, err := loaded(t, madeUp).HTML()
	if err != nil {
		t.Fatal(err)
	}
	return page
}

func TestPlotsAreWellFormed(t *testing.T) {
	plots := regexp.MustCompile(`(?s)<svg .*?</svg>`).FindAllString(pageOf(t), -1)
	if len(plots) < 6 {
		t.Fatalf("%d plots, want more", len(plots))
	}
	for _, p := range plots {
		d := xml.NewDecoder(strings.NewReader(p))
		for {
			_, err := d.Token()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%v in %.200s", err, p)
			}
		}
	}
}

// The page is sent by mail and opened without a network.
func TestPageNeedsNothingElse(t *testing.T) {
	page := strings.ReplaceAll(pageOf(t), `xmlns="http://www.w3.org/2000/svg"`, "")
	for _, bad := range []string{"http://", "https://", "<script", "src=", "url(", "@import", "<link", "NaN", "ZgotmplZ"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q in it", bad)
		}
	}
}

func TestIDsAreUniqueAndLinksLead(t *testing.T) {
	page := pageOf(t)
	ids := make(map[string]bool)
	for _, m := range regexp.MustCompile(`\sid="([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if ids[m[1]] {
			t.Errorf("the id %q stands twice", m[1])
		}
		ids[m[1]] = true
	}
	for _, m := range regexp.MustCompile(`href="#([^"]*)"`).FindAllStringSubmatch(page, -1) {
		if !ids[m[1]] {
			t.Errorf("a link leads to %q, which is nowhere", m[1])
		}
	}
}

// The output of a failing server is shown as text, whatever it contains.
func TestTextIsEscaped(t *testing.T) {
	if page := pageOf(t); strings.Contains(page, "start <b>") || !strings.Contains(page, "start &lt;b&gt;") {
		t.Error("an error is not escaped in the page")
	}
	md := loaded(t, madeUp).Markdown()
	if !strings.Contains(md, `start &lt;b&gt;: it said: a\|b \*c\* &lt;!-- bench:end`) {
		t.Error("an error is not escaped in Markdown")
	}
}
