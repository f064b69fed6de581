package remote

import (
	"strings"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/tftp"
)

// ParseTFTP reads a URL of TFTP. Errors are usage errors.
func ParseTFTP(s string) (tftp.Target, error) {
	t, err := tftp.ParseURL(s)
	switch hint := MissingScheme(s); {
	case err == nil:
		return t, nil
	case hint != nil:
		return t, hint
	}
	return t, failure.Usage.Wrap(err)
}

// MissingScheme returns the error for a URL without its scheme, the usual slip;
// package net/url takes it for a path, or the host for another scheme. It returns
// nil for what is no URL even so.
func MissingScheme(s string) error {
	if strings.Contains(s, "://") || !strings.Contains(s, "/") || strings.HasPrefix(s, ".") {
		return nil
	}
	if _, err := tftp.ParseURL("tftp://" + s); err != nil {
		return nil
	}
	return failure.Usage.Errorf("URL %q: it has no scheme; write tftp://%s", s, s)
}
