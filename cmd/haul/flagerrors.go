package main

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/haul-project/haul/tftp"
)

// valueKinds say what a flag takes, by the name that package pflag has for its
// type.
var valueKinds = map[string]string{
	"bool":     "it is true or false",
	"int":      "it is a whole number",
	"int64":    "it is a whole number",
	"uint64":   "it is a whole number, 0 or above",
	"float64":  "it is a number, such as 0.5 or 2000",
	"duration": "it is a time with its unit, such as 300ms, 10s or 2m",
}

// flagError says what a flag takes whose value could not be read. Package pflag
// would quote the parser, which speaks to programmers.
func flagError(err error) error {
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	f := bad.GetFlag()
	kind, ok := valueKinds[f.Value.Type()]
	switch {
	case !ok: // a type of ours, with words of its own
		return fmt.Errorf("--%s %q: %w", f.Name, bad.GetValue(), bad.Unwrap())
	case errors.Is(err, strconv.ErrRange):
		kind = "the number is out of range"
	}
	return fmt.Errorf("--%s %q: %s", f.Name, bad.GetValue(), kind)
}

// parseURL reads a URL of the command line.
func parseURL(s string) (tftp.Target, error) {
	t, err := tftp.ParseURL(s)
	switch hint := schemeless(s); {
	case err == nil:
		return t, nil
	case hint != nil:
		return t, hint
	}
	return t, usageError{err}
}

// schemeless returns the error for a URL without its scheme, the usual slip;
// package net/url takes it for a path, or the host for another scheme. It returns
// nil for what is no URL even so.
func schemeless(s string) error {
	if strings.Contains(s, "://") || !strings.Contains(s, "/") || strings.HasPrefix(s, ".") {
		return nil
	}
	if _, err := tftp.ParseURL("tftp://" + s); err != nil {
		return nil
	}
	return usagef("URL %q: it has no scheme; write tftp://%s", s, s)
}
