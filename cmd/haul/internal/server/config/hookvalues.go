package config

import (
	"errors"
	"slices"

	"github.com/pelletier/go-toml/v2/unstable"

	"github.com/haul-project/haul/cmd/haul/internal/server/hooks"
)

// hookTable is the name of the table that describes a hook in a file, [[hook]]. It is also the key
// of the setting.
const hookTable = "hook"

// hooksValue returns a value that consists of hooks in the format of [hooks.Parse]. In a file, each
// hook has its own table.
func hooksValue(to *[]hooks.Hook) *value {
	v := partsValue(to, false, func(s string) ([]hooks.Hook, error) {
		h, err := hooks.Parse(s)
		return []hooks.Hook{h}, err
	})
	v.kind = kindTables
	return v
}

// A hookReader reads the tables of hooks in a file.
type hookReader struct {
	setting *Setting
	at      Origin // position of the table that is being read
	hook    *hooks.Hook
	refused bool // a mistake in that table has been reported
}

// beginHook begins a table. If a flag or a variable sets hooks, the tables of the file are ignored.
func (f *fileReader) beginHook(at Origin) {
	one := f.settings.find(hookTable)
	if from := one.origin; one.given() && from.File == "" {
		f.skip = true
		return
	}
	if !one.given() {
		one.origin = at
	}
	f.hooks = hookReader{setting: one, at: at, hook: new(hooks.Hook)}
}

// hookField reads a key of the current table.
func (f *fileReader) hookField(e *unstable.Node) {
	key, at := f.key(e)
	refuse := func(format string, args ...any) {
		f.hooks.refused, f.hooks.setting.refused = true, true
		f.mistake(at, "[[%s]] "+format, append([]any{hookTable}, args...)...)
	}
	if !slices.Contains(hooks.Fields, key) {
		refuse("has no key %s%s", key, didYouMean(key, hooks.Fields))
		return
	}
	parts, err := texts(e.Value())
	if err != nil && !hooks.IsList(key) {
		err = errors.New("it is text in quotes")
	}
	if err == nil {
		err = f.hooks.hook.Set(key, parts...)
	}
	if err != nil {
		refuse("%s %s: %w", key, f.source(e.Value()), err)
	}
}

// endHook adds the hook of the current table, if there is one.
func (f *fileReader) endHook() {
	h := f.hooks.hook
	if f.hooks.hook = nil; h == nil || f.hooks.refused {
		return
	}
	err := h.Check()
	if err == nil {
		err = f.hooks.setting.value.list.set(h.String())
		f.settings.hookTables = append(f.settings.hookTables, f.hooks.at)
	}
	if err != nil {
		f.hooks.setting.refused = true
		f.mistake(f.hooks.at, "[[%s]]: %w", hookTable, err)
	}
}
