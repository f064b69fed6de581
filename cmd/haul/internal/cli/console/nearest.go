package console

import "strings"

// nearestWithin is by how many letters a word may differ from what is suggested for it.
const nearestWithin = 2

// Nearest returns those of some names that a word was probably meant to be.
func Nearest(word string, names []string) (near []string) {
	word = strings.ToLower(word)
	for within := 1; len(near) == 0 && within <= nearestWithin; within++ {
		for _, name := range names {
			if lower := strings.ToLower(name); distance(word, lower) <= within || word != "" && strings.HasPrefix(lower, word) {
				near = append(near, name)
			}
		}
	}
	return near
}

// distance returns how many letters have to be changed, added or taken out to make one
// word of another (Levenshtein).
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	row := make([]int, len(to)+1) // the distances of what was read of a from each beginning of b
	for j := range row {
		row[j] = j
	}
	for i, r := range from {
		before := row[0]
		row[0] = i + 1
		for j, s := range to {
			change := before
			if r != s {
				change++
			}
			before = row[j+1]
			row[j+1] = min(change, row[j]+1, before+1)
		}
	}
	return row[len(to)]
}
