package commandline

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroups is the name of a flag's annotation that lists its groups. --help-all prints the flags
// by group.
const flagGroups = "groups"

// AddGroup calls add, which adds flags to a command, and assigns the new flags to the named groups.
func AddGroup(cmd *cobra.Command, add func(*cobra.Command), name ...string) {
	before := map[string]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	add(cmd)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !before[f.Name] {
			Group(cmd, f.Name, name...)
		}
	})
}

// Group assigns a flag to one or more groups.
func Group(cmd *cobra.Command, flag string, name ...string) {
	cobra.CheckErr(cmd.Flags().SetAnnotation(flag, flagGroups, name))
}

// groupOf returns the names of a flag's groups, joined by [GroupName], or "" if the flag has no
// group.
func groupOf(f *pflag.Flag) string { return GroupName(Groups(f)) }

// Groups returns the groups of a flag.
func Groups(f *pflag.Flag) []string { return f.Annotations[flagGroups] }

// GroupName joins the names of groups in one text, such as "A, B and C".
func GroupName(groups []string) string {
	if n := len(groups) - 1; n > 0 {
		return strings.Join(groups[:n], ", ") + " and " + groups[n]
	}
	return strings.Join(groups, "")
}
