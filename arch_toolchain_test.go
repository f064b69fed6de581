package haul

import (
	goversion "go/version"
	"os"
	"regexp"
	"testing"
)

// leastGo is the oldest toolchain whose os.Root is safe. The server and the client rely on os.Root to
// stay within a directory. Go 1.26.1 repairs Root.ReadDir, whose entries described files outside the
// root (CVE-2026-27139); 1.26.2 repairs Root.Chmod, which a symbolic link could lead outside
// (CVE-2026-32282); 1.26.5 repairs Root.Open of "link/", which followed the link outside
// (CVE-2026-39822).
const leastGo = "1.26.5"

// The go lines in the go.mod files exclude toolchains before leastGo: because of such a line, an older
// go command refuses to build, or fetches a newer toolchain.
func TestGoLineExcludesToolchainsWithHoles(t *testing.T) {
	line := regexp.MustCompile(`(?m)^go (\S+)$`)
	for _, file := range []string{"go.mod", "bench/go.mod"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m := line.FindSubmatch(text)
		if m == nil {
			t.Errorf("%s has no go line", file)
			continue
		}
		if goversion.Compare("go"+string(m[1]), "go"+leastGo) < 0 {
			t.Errorf("%s allows go %s; %s is the first whose os.Root has no known hole", file, m[1], leastGo)
		}
	}
}
