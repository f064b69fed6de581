package console

import (
	"fmt"
	"testing"
)

// A word suggests names that differ by one or two letters, or that begin with it, but only the
// nearest of them.
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
