package commandline

import (
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// flagGroups is the annotation of a flag with the groups that it belongs to. --help-all
// prints the flags group by group.
const flagGroups = "groups"

// AddGroup adds flags to a command by add, as a group of this name.
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

// Group moves a flag to a group, or to several.
func Group(cmd *cobra.Command, flag string, name ...string) {
	cobra.CheckErr(cmd.Flags().SetAnnotation(flag, flagGroups, name))
}

// groupOf names the group of a flag; "" is that of flags which belong to none.
func groupOf(f *pflag.Flag) string { return GroupName(Groups(f)) }

// Groups returns the groups of a flag.
func Groups(f *pflag.Flag) []string { return f.Annotations[flagGroups] }

// GroupName names several groups: A, B and C.
func GroupName(groups []string) string {
	if n := len(groups) - 1; n > 0 {
		return strings.Join(groups[:n], ", ") + " and " + groups[n]
	}
	return strings.Join(groups, "")
}
