package haul

import (
	"regexp"
	"strings"
	"testing"
)

// The version has a form that Go modules and Debian packages accept, and the changelog begins with it.
func TestVersion(t *testing.T) {
	if !regexp.MustCompile(`^\d+\.\d+\.\d+(-(rc|beta|alpha)\.\d+)?$`).MatchString(Version()) {
		t.Errorf("VERSION is %q, want MAJOR.MINOR.PATCH", Version())
	}
	_, changes, _ := strings.Cut(read(t, "CHANGELOG.md"), "\n## ")
	if !strings.HasPrefix(changes, Version()+"\n") && !strings.HasPrefix(changes, Version()+" ") {
		t.Errorf("the first section of CHANGELOG.md is not that of %s", Version())
	}
}
