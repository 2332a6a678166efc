# %% [markdown]
# # wards

# %%
print(1)
