"""From scores to masks: discretizers, taggers, extractors."""
