"""Operations that move elements: shapes, joins, selections, masks, padding."""
