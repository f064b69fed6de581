package console

import (
	"fmt"
	"testing"
)

// A word suggests the names that differ by a letter or two, or that it begins; of those
// only the nearest.
func TestNearest(t *testing.T) {
	names := []string{"listen", "listing", "single_port", "mtu"}
	for word, want := range map[string]string{
		"singel_port": "[single_port]", "lisen": "[listen]", "listin": "[listen listing]", "list": "[listen listing]",
		"MTU": "[mtu]", "mut": "[mtu]", "": "[]", "windowsize": "[]", "mtü": "[mtu]",
	} {
		if got := fmt.Sprint(Nearest(word, names)); got != want {
			t.Errorf("%q suggests %s, want %s", word, got, want)
		}
	}
}
