package bootload

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"
	"time"
)

// wantXML fails the test unless a picture is well-formed, and has a solid and a dashed curve.
func wantXML(t *testing.T, svg string) {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(svg))
	for {
		_, err := d.Token()
		if err == io.EOF {
			break
		}
		if err != nil {
			t.Fatalf("%v in %s", err, svg)
		}
	}
	if strings.Count(svg, "stroke-dasharray") != 1 || strings.Count(svg, `stroke-width="2.5"`) != 1 || strings.Contains(svg, "NaN") {
		t.Errorf("%s", svg)
	}
}

// Pictures of no machines and of very many are valid, and bounded in size.
func TestSVG(t *testing.T) {
	many := make([]time.Duration, 100_000)
	for i := range many {
		many[i] = time.Duration(i) * time.Millisecond
	}
	for _, times := range [][]time.Duration{nil, many[:1], many} {
		var b strings.Builder
		if err := WriteSVG(&b, times, times, len(times), 100*time.Second); err != nil {
			t.Fatal(err)
		}
		wantXML(t, b.String())
		if b.Len() > 32<<10 {
			t.Errorf("%d bytes for %d machines", b.Len(), len(times))
		}
	}
}
