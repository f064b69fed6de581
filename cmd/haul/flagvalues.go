package main

import (
	"errors"
	"net/netip"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
	"github.com/haul-project/haul/cmd/haul/internal/server/site"
)

// A filledFlag is the value of a flag that must not be empty. If --cacert or --fingerprint could be
// empty, an empty shell variable would make haul trust every certificate that the system trusts.
type filledFlag string

// Set sets the text. It returns an error if s is empty.
func (f *filledFlag) Set(s string) error {
	if s == "" {
		return errors.New("it is empty; leave the flag out to trust what the system trusts")
	}
	*f = filledFlag(s)
	return nil
}

// String returns the text.
func (f *filledFlag) String() string { return string(*f) }

// Type returns the kind of value, for help texts.
func (f *filledFlag) Type() string { return "string" }

// sizeVar adds a flag that takes a size.
func sizeVar(flags *pflag.FlagSet, to *int64, name string, value int64, usage string) {
	*to = value
	flags.Var((*console.ByteSize)(to), name, usage)
}

// humanFlag adds the flag --human-readable, or -h, as ls and df have it. Therefore -h does not
// print the help of this command; only --help does.
func humanFlag(cmd *cobra.Command, to *bool, usage string) {
	cmd.Flags().BoolVarP(to, "human-readable", "h", false, usage)
	cmd.Flags().Bool("help", false, "help for "+cmd.Name())
}

// parseNetworks parses the addresses and networks of a flag.
func parseNetworks(flag string, words []string) ([]netip.Prefix, error) {
	var all []netip.Prefix
	for _, w := range words {
		some, err := site.ParseNetwork(w)
		if err != nil {
			return nil, failure.Usage.Errorf("--%s %s: %w", flag, w, err)
		}
		all = append(all, some...)
	}
	return all, nil
}
