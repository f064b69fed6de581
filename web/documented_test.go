package web

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/haul-project/haul/internal/passwords"
)

// The numbers in docs/http.md equal those of the server.
func TestDocumentedNumbers(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "docs", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	thousands := func(n int) string {
		s := fmt.Sprint(n)
		for i := len(s) - 3; i > 0; i -= 3 {
			s = s[:i] + "," + s[i:]
		}
		return s
	}
	for _, want := range []string{
		fmt.Sprintf("| more than %d bytes, decoded | 414 |", maxPath),
		fmt.Sprintf("| path | %d bytes |", maxPath),
		fmt.Sprintf("| ranges in a request | %d |", maxRanges),
		fmt.Sprintf("more than %d ranges", maxRanges),
		fmt.Sprintf("| entries in a listing; in all that are held | %s; %s,", thousands(maxListing), thousands(maxListed)),
		fmt.Sprintf("A directory may have %s entries", thousands(maxListing)),
		fmt.Sprintf("| directories above one in which links to directories are listed | %d |", maxAbove),
		fmt.Sprintf("| Upload-Source | %d bytes |", maxSource),
		fmt.Sprintf("| upload without a length | %d GiB,", defaultMaxUnsized>>30),
		fmt.Sprintf("| silence of a peer | %d minute |", DefaultStall/time.Minute),
		fmt.Sprintf("| least rate of an upload, and of an answer that is taken | %d KiB a minute |", minStep>>10),
		fmt.Sprintf("| passwords known again | %s |", thousands(passwords.MaxVerified)),
		fmt.Sprintf("is known again for %d minutes", passwords.VerifiedFor/time.Minute),
		fmt.Sprintf("| requests that wait for a password to be checked | %d, of one address %d |", passwords.MaxChecks, passwords.MaxChecksPerSource),
		fmt.Sprintf("| requests at a time that have files open, or lists | %s,", thousands(DefaultMaxOpen)),
		fmt.Sprintf("| logged of what clients say: agent, name, range | %d bytes each |", max(maxAgent, maxLogged)),
		fmt.Sprintf("Up to %d KiB are one read and one write", smallBody>>10),
		fmt.Sprintf("pieces of %d KiB", copyBytes>>10),
		fmt.Sprintf("begins with %d KiB, and is then between %d KiB and %d MiB", firstStep>>10, minStep>>10, maxStep>>20),
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/http.md does not say %q", want)
		}
	}
}
