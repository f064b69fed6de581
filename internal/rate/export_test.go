package rate

const MaxOwing = maxOwing

// Len returns the number of accounts that are kept.
func (a *Accounts[Name]) Len() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.byName)
}
