package commandline

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/haul-project/haul/cmd/haul/internal/cli/console"
	"github.com/haul-project/haul/cmd/haul/internal/cli/failure"
)

// valueKinds maps package pflag's name of a type to a text that says what a flag's value has to be.
var valueKinds = map[string]string{
	"bool":     "it is true or false",
	"boolfunc": "it is true or false",
	"int":      "it is a whole number",
	"int64":    "it is a whole number",
	"uint64":   "it is a whole number, 0 or above",
	"float64":  "it is a number, such as 0.5 or 2000",
	"duration": "it is a time with its unit, such as 300ms, 10s or 2m",
}

// otherNames maps flags of rclone, lftp, curl and rsync to haul's flags with the same meaning.
var otherNames = map[string]string{
	"transfers": "parallel", "checkers": "parallel", "jobs": "parallel",
	"bwlimit": "limit", "limit-rate": "limit", "rate-limit": "limit",
	"resume": "continue", "partial": "continue", "continue-at": "continue",
	"ignore-existing": "no-clobber", "skip-existing": "no-clobber",
	"exclude-from": "filter-from", "include-from": "filter-from",
	"copy-links": "links", "dereference": "links",
	"archive": "preserve", "perms": "preserve", "times": "preserve",
	"delete-before": "delete", "delete-after": "delete", "delete-during": "delete",
}

// unknownFlag returns the error for a flag that a command does not have. It suggests the nearest
// flag.
func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	name := err.GetSpecifiedName()
	if letters := err.GetSpecifiedShortnames(); letters != "" {
		return fmt.Errorf("there is no flag -%s in %q", name, cmd.CommandPath())
	}
	var names []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	hint := ""
	if ours := otherNames[name]; cmd.Flags().Lookup(ours) != nil {
		hint = fmt.Sprintf("; did you mean --%s?", ours)
	} else if near := console.Nearest(name, names); len(near) > 0 {
		hint = fmt.Sprintf("; did you mean --%s?", near[0])
	}
	return fmt.Errorf("there is no flag --%s in %q%s", name, cmd.CommandPath(), hint)
}

// FlagError returns the error for a wrong flag. It replaces package pflag's own error, which would
// quote the error of the value's parser, a text for programmers.
func FlagError(cmd *cobra.Command, err error) error {
	if unknown, ok := errors.AsType[*pflag.NotExistError](err); ok {
		return unknownFlag(cmd, unknown)
	}
	bad, ok := errors.AsType[*pflag.InvalidValueError](err)
	if !ok {
		return err
	}
	f := bad.GetFlag()
	kind, ok := valueKinds[f.Value.Type()]
	switch {
	case !ok: // the flag has one of haul's own types, whose errors are good messages
		return fmt.Errorf("--%s %q: %w", f.Name, bad.GetValue(), bad.Unwrap())
	case errors.Is(err, strconv.ErrRange):
		kind = "the number is out of range"
	}
	return fmt.Errorf("--%s %q: %s", f.Name, bad.GetValue(), kind)
}

// NoCommand returns an error if args begins with a word that is not a command of cmd. The error
// suggests another command: the one with the same meaning, if another program has a command of that
// name (SuggestFor), or otherwise the one with the most similar name.
func (p *Program) NoCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var names []string
	ours := ""
	for _, c := range cmd.Commands() {
		if !c.Hidden {
			names = append(names, c.Name())
		}
		if slices.Contains(c.SuggestFor, args[0]) {
			ours = c.Name()
		}
	}
	hint := fmt.Sprintf("%q lists all", cmd.CommandPath()+" --help")
	if t, ok := p.findTopic(args[0]); ok {
		hint = fmt.Sprintf("did you mean %q?", "haul help "+t.Name)
	} else if ours != "" {
		hint = fmt.Sprintf("did you mean %q?", cmd.CommandPath()+" "+ours)
	} else if near := console.Nearest(args[0], names); len(near) > 0 {
		hint = fmt.Sprintf("did you mean %q?", cmd.CommandPath()+" "+near[0])
	}
	return failure.Usage.Errorf("there is no command %q; %s", cmd.CommandPath()+" "+args[0], hint)
}

// Args returns a function that checks arguments as `check` does, but returns usage errors.
func Args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return failure.Usage.Errorf("%w; usage: %s", lacking(cmd, args, err), cmd.UseLine())
		}
		return nil
	}
}

// lacking returns an error that names the missing argument. Package cobra's own error only says how
// many arguments there are.
func lacking(cmd *cobra.Command, args []string, err error) error {
	words := strings.Fields(cmd.Use)[1:] // words in capitals are required
	n := 0
	for _, w := range words {
		name := strings.TrimSuffix(w, "...")
		if strings.HasPrefix(w, "[") || name != strings.ToUpper(name) {
			continue
		}
		if n++; n > len(args) {
			return fmt.Errorf("%s: %s is missing", cmd.Name(), name)
		}
	}
	if n > 0 && len(args) > n {
		return fmt.Errorf("%s: unexpected argument %q", cmd.Name(), args[n])
	}
	return err
}

// flagUsages returns the help of flags. For a flag with an optional value, package pflag prints
// --flag VALUE[=default], although the value must follow an equals sign. flagUsages prints
// --flag[=VALUE] instead.
func flagUsages(set *pflag.FlagSet) string {
	text := set.FlagUsagesWrapped(Width)
	set.VisitAll(func(f *pflag.Flag) {
		value, _ := pflag.UnquoteUsage(f)
		if was := fmt.Sprintf("%s[=%s]", value, f.NoOptDefVal); value != "" && f.NoOptDefVal != "" {
			is := fmt.Sprintf("[=%s]", value)
			text = strings.Replace(text, "--"+f.Name+" "+was, "--"+f.Name+is+strings.Repeat(" ", len(" "+was)-len(is)), 1)
		}
	})
	return text
}

// Width is the largest width of the help, in characters.
const Width = 92
