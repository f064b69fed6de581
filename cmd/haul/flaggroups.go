package main

import (
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/haul-project/haul/internal/failure"
	"github.com/haul-project/haul/internal/remote"
)

// flagGroups is the annotation of a flag with the groups that it belongs to. --help-all
// prints the flags group by group.
const flagGroups = "groups"

// addGroup adds flags to a command by add, as a group of this name.
func addGroup(cmd *cobra.Command, add func(*cobra.Command), name ...string) {
	before := map[string]bool{}
	cmd.Flags().VisitAll(func(f *pflag.Flag) { before[f.Name] = true })
	add(cmd)
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if !before[f.Name] {
			group(cmd, f.Name, name...)
		}
	})
}

// group moves a flag to a group, or to several.
func group(cmd *cobra.Command, flag string, name ...string) {
	cobra.CheckErr(cmd.Flags().SetAnnotation(flag, flagGroups, name))
}

// groupOf names the group of a flag; "" is that of flags which belong to none.
func groupOf(f *pflag.Flag) string { return groupName(f.Annotations[flagGroups]) }

// groupName names several groups: A, B and C.
func groupName(groups []string) string {
	if n := len(groups) - 1; n > 0 {
		return strings.Join(groups[:n], ", ") + " and " + groups[n]
	}
	return strings.Join(groups, "")
}

// onlyFlagsOf refuses flags that the protocol does not have.
func onlyFlagsOf(p remote.Protocol, cmd *cobra.Command) error {
	var wrong []string
	other, option := "", false
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if of := f.Annotations[flagGroups]; len(of) > 0 && !slices.Contains(of, p.String()) {
			option = option || f.Name == "option"
			wrong = append(wrong, "--"+f.Name)
			other = groupName(of)
		}
	})
	if len(wrong) == 0 {
		return nil
	}
	if option && len(wrong) == 1 && cmd.Name() == "get" {
		return failure.Usage.Errorf("-o: a setting of SSH, which %s does not have; the file to write is the last argument: haul get SOURCE FILE", p)
	}
	return failure.Usage.Errorf("%s: a flag of %s, which %s does not have", strings.Join(wrong, ", "), other, p)
}
