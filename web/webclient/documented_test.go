package webclient

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// The numbers in docs/http.md equal those of the client.
func TestDocumentedNumbers(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "http.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		fmt.Sprintf("files from %d MiB on", keptFrom>>20),
		fmt.Sprintf("asks again for %d s, with pauses that grow to some %d s", DefaultAbsenceTimeout/time.Second, maxLossPause/time.Second),
		fmt.Sprintf("answers 423, as it has yet to notice that the last connection is gone, it asks for %d s", lockedPatience/time.Second),
		fmt.Sprintf("begins anew, %d times at most", maxRestarts),
	} {
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
			t.Errorf("docs/http.md does not say %q", want)
		}
	}
}
